// SPDX-License-Identifier: Apache-2.0
// The pipeline, slow and obviously right: what the compiled one must do, packet by packet.
//
// It holds flows as the controller said them, in a list; it finds a packet's flow by looking at all
// of them; it runs actions one by one, each by its operation's own reference. It shares with the
// compiled pipeline only the general parser and the packet editing functions (which have tests of
// their own), the hash that spreads flows over a select group, and nothing of tables, rules,
// compilation, bursts or counters.
// Tests and fuzzing compare the two on random pipelines and packets.
#pragma once

#include <map>
#include <vector>

#include "pipeline/operations/reference_packet.h"
#include "pipeline/terms/flow_types.h"
#include "pipeline/terms/punt.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {

class Reference final : public ReferenceSwitch {
 public:
  struct Counts {
    uint64_t packets{0};
    uint64_t bytes{0};
    bool operator==(const Counts&) const = default;
  };
  struct Flow {
    FlowMod mod;
    Counts counts;
  };
  struct Group {
    GroupMod mod;
    Counts counts;
    std::vector<Counts> buckets;
  };
  struct Table {
    uint64_t lookups{0};
    uint64_t matched{0};
    std::vector<Flow> flows;
  };
  struct Punt {
    uint8_t table_id;
    PuntReason reason;
    uint64_t cookie;
    uint64_t metadata;
    Bytes bytes;
    bool operator==(const Punt&) const = default;
  };

  /// Ports 1..n_ports exist and are up.
  explicit Reference(PortNo n_ports) : n_ports_(n_ports) {}

  /// Valid commands only: it checks nothing.
  void flow_mod(const FlowMod& mod);
  void group_mod(const GroupMod& mod);

  /// One packet's way; the results are below.
  void process(PortNo in_port, const Bytes& bytes);

  std::map<PortNo, std::vector<Bytes>> sent;
  std::vector<Punt> punts;
  std::map<uint8_t, Table> tables;
  std::map<uint32_t, Group> groups;

 private:
  struct Packet;

  [[nodiscard]] bool is_live(const Bucket& bucket) const;
  Flow* find(uint8_t table, const Packet& packet);
  /// False: the packet was dropped on the way.
  bool run_list(ReferencePacket& packet, const ActionList& actions, const Flow& flow);
  void run_set(ReferencePacket& packet, const ActionList& written, const Flow& flow);

  // ReferenceSwitch
  void send(const ReferencePacket& packet, PortNo port) override;
  [[nodiscard]] std::vector<PortNo> flood_ports(const ReferencePacket& packet) const override;
  void punt(const ReferencePacket& packet, PuntReason reason) override;
  void run_group(const ReferencePacket& packet, uint32_t group_id) override;
  void learn(uint64_t address, PortNo port) override;
  [[nodiscard]] PortNo find(uint64_t address) const override;

  const Flow* flow_{nullptr};  ///< the rule at work
  std::map<uint64_t, PortNo> macs_;
  PortNo n_ports_;
};

}  // namespace headrace::pipeline::test
