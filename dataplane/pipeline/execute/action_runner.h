// SPDX-License-Identifier: Apache-2.0
// Runs micro-operations on one packet: the general way, for whatever the executor's fused loops
// don't do themselves.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <memory>
#include <span>

#include "match/fields/extract.h"
#include "pipeline/execute/tx_buffers.h"
#include "pipeline/program/program.h"
#include "pipeline/terms/punt.h"

namespace headrace::pipeline {

struct Mirror;

/// One packet and what is known of it. A packet and its fields are always in step.
struct PacketView {
  rte_mbuf* packet;
  match::FlowKey* values;
  packet::ParsedPacket* parsed;
};

/// A packet's action set (section 5.10), as references to the ops of the rules that wrote it.
struct ActionSet {
  uint32_t count{0};
  std::array<const Op*, kSetSlots> ops;

  void clear() { count = 0; }
  /// Adds an op; one of the same slot gives way.
  void write(const Op& op);
  /// Puts it in the order of execution; a group excludes the output.
  void arrange();
};

/// Where a burst is: what stays the same for all of its packets.
struct BurstContext {
  const LsiProgram* program{nullptr};
  const Port* in_port{nullptr};  ///< null: a reserved port, as of packet-out
  PortNo in_port_number{0};
  unsigned depth{0};  ///< patches crossed so far
  packet::Depth parse_depth{};
  Count* counts{nullptr};  ///< this worker's, by CounterIndex
  WorkerCounts* worker{nullptr};
};

/// What became of a packet after a list of ops.
enum class Outcome : uint8_t { kept, consumed };

class ActionRunner {
 public:
  ActionRunner(unsigned worker, PuntQueue& punts, TxBuffers& tx)
      : worker_(worker), punts_(punts), tx_(tx) {}

  void set_time(uint64_t tsc, uint32_t tick) {
    tsc_ = tsc;
    tick_ = tick;
  }

  /// Runs `ops` in order. `may_consume`: the last op may take the packet instead of a copy. A
  /// packet that an op refuses is dropped: consumed.
  Outcome run(const BurstContext& burst, PacketView view, std::span<const Op> ops,
              const RuleBody& rule, bool may_consume) noexcept;

  /// Runs an action set, which takes the packet. `had_output`: it has gone somewhere before.
  void run_set(const BurstContext& burst, PacketView view, ActionSet& set, const RuleBody& rule,
               bool had_output) noexcept;

  /// Charges the packet to a meter; null: there is none any more. False: it was dropped.
  bool meter(const BurstContext& burst, PacketView view, const MeterProgram* meter) noexcept;

  /// The bucket of a select, indirect or fast-failover group that a flow goes by; null if there is
  /// none, or if the group is of another type.
  [[nodiscard]] const BucketProgram* choose(const GroupProgram& group,
                                            uint64_t hash) const noexcept;

  /// Outputs since the last call, to tell packets that went nowhere.
  [[nodiscard]] bool take_any_output() { return std::exchange(any_output_, false); }

  /// Set by output to the flow tables: packet-out only; takes them. At most kBurst.
  std::span<rte_mbuf*> take_table_packets() {
    const size_t count = std::exchange(n_table_packets_, 0);
    return {table_packets_.data(), count};
  }

  void drop(const BurstContext& burst, rte_mbuf* packet, DropReason reason) noexcept {
    tx_.drop(packet, reason, *burst.worker);
  }
  /// Sends the packet itself to the controller.
  void punt(const BurstContext& burst, PacketView view, const RuleBody& rule, PuntReason reason,
            uint16_t max_len) noexcept;
  /// Sends the packet itself out of a port, or drops it for the reason that forbids it.
  void output(const BurstContext& burst, PacketView view, const PortHandle& handle) noexcept;
  /// Sends the packet itself to a port that may be sent to, encapsulated if it is a tunnel.
  void send(const BurstContext& burst, PacketView view, const Port& port) noexcept;
  /// Gives copies of a packet that comes in or leaves by the port `at` to those of `mirrors` that
  /// select it and have not had it.
  void mirror(const BurstContext& burst, rte_mbuf* packet, const Port& at,
              std::span<const std::shared_ptr<const Mirror>> mirrors) noexcept;
  /// The same for the mirrors of what leaves by a port.
  void mirror_sent(const BurstContext& burst, rte_mbuf* packet, const Port& port) noexcept;
  /// Tells the control thread of a packet that is about neighbors, a copy of it.
  void tell_of_neighbor(const BurstContext& burst, rte_mbuf* packet) noexcept;

 private:
  bool edit(const BurstContext& burst, PacketView& view, const Op& op, const RuleBody& rule,
            bool& dropped) noexcept;
  void run_output(const BurstContext& burst, PacketView view, const Op& op, const RuleBody& rule,
                  bool consume) noexcept;
  /// MAC learning (section 5.1, the NORMAL port).
  void normal(const BurstContext& burst, PacketView view, bool consume) noexcept;
  /// Sends the packet, or a copy, with the tag that its VLAN has at the port.
  void send_in_vlan(const BurstContext& burst, PacketView view, const Port& port, uint16_t vlan,
                    bool consume) noexcept;
  void flood(const BurstContext& burst, PacketView view, bool consume) noexcept;
  /// Sends a mirror's copy, with the tag that its VLAN has at the port.
  void send_mirrored(const BurstContext& burst, rte_mbuf* packet, const Mirror& mirror,
                     const Port& port, uint16_t vlan) noexcept;
  void group(const BurstContext& burst, PacketView view, const GroupHandle& handle,
             const RuleBody& rule, bool consume, unsigned nesting) noexcept;
  void run_bucket(const BurstContext& burst, PacketView view, const BucketProgram& bucket,
                  const RuleBody& rule, bool consume, unsigned nesting) noexcept;
  Outcome run_ops(const BurstContext& burst, PacketView view, std::span<const Op> ops,
                  const RuleBody& rule, bool may_consume, unsigned nesting) noexcept;
  /// A copy to send elsewhere; null (counted) if there is no buffer.
  rte_mbuf* copy(const BurstContext& burst, rte_mbuf* packet) noexcept;

  unsigned worker_;
  PuntQueue& punts_;
  TxBuffers& tx_;
  uint64_t tsc_{0};
  uint32_t tick_{1};
  bool any_output_{false};
  size_t n_table_packets_{0};
  std::array<rte_mbuf*, kBurst> table_packets_{};
};

/// Of time in a group's memory: 2^29 TSC cycles, about 0.2 s.
inline constexpr unsigned kSelectTickShift = 29;

/// A number that is the same for all packets of a flow: from the addresses, protocol and ports of
/// IP; without IP, from the Ethernet addresses, and the addresses of ARP or the type. So an IP
/// packet keeps it when its MAC addresses are rewritten.
[[nodiscard]] uint64_t flow_hash64(const rte_mbuf* packet,
                                   const packet::ParsedPacket& parsed) noexcept;
/// The flow's number with the Ethernet addresses in it: by its upper half a select group goes, so
/// that flows which differ in nothing else spread too.
[[nodiscard]] uint64_t select_hash(const rte_mbuf* packet, uint64_t flow_hash64) noexcept;
/// The flow's number's lower half, which a tunnel shows as its source port: were it the same half,
/// all packets of a bucket would look homogeneous.
[[nodiscard]] inline uint32_t entropy_of(uint64_t flow_hash64) {
  return static_cast<uint32_t>(flow_hash64);
}

/// True if something can go out there now (section 5.6.1, fast failover).
[[nodiscard]] bool is_live(const BucketProgram& bucket, unsigned nesting) noexcept;

/// The place on a select group's bucket_table for a flow, its bucket alive; nothing if none is.
[[nodiscard]] const BucketProgram* select_bucket(const GroupProgram& group, uint32_t hash) noexcept;

/// The same of a stateful group, which remembers.
[[nodiscard]] const BucketProgram* select_stateful(const GroupProgram& group, uint64_t hash,
                                                   uint32_t tick) noexcept;

/// A DSCP of an assured forwarding class with its drop precedence raised (RFC 2597); any other
/// stays as it is.
[[nodiscard]] uint8_t remark_dscp(uint8_t dscp, uint8_t prec_level) noexcept;

}  // namespace headrace::pipeline
