// SPDX-License-Identifier: Apache-2.0
// What an operation's reference sees: one packet, its fields read anew after each change, and a
// switch to send it through. That switch is pipeline/testing/reference.h in tests, and
// pipeline/trace/tracer.h where an operator asks what becomes of a packet.
#pragma once

#include <rte_mbuf.h>

#include <vector>

#include "match/fields/extract.h"
#include "pipeline/terms/actions.h"
#include "pipeline/terms/drop_reason.h"
#include "pipeline/terms/port_vlans.h"
#include "pipeline/terms/punt.h"

namespace headrace::pipeline {

struct ReferencePacket;

class ReferenceSwitch {
 public:
  virtual ~ReferenceSwitch() = default;
  /// Sends a copy, as the packet is, if the port exists; also to the port that it came by.
  virtual void send(const ReferencePacket& packet, PortNo port) = 0;
  /// The ports that a flooded packet leaves by: those that are up, without the one that it came by.
  [[nodiscard]] virtual std::vector<PortNo> flood_ports(const ReferencePacket& packet) const = 0;
  virtual void punt(const ReferencePacket& packet, PuntReason reason) = 0;
  virtual void run_group(const ReferencePacket& packet, uint32_t group_id) = 0;
  /// MAC learning: notes where an address is; where it is, or 0.
  virtual void learn(uint64_t address, PortNo port) = 0;
  [[nodiscard]] virtual PortNo find(uint64_t address) const = 0;
  /// Says why the packet, or the copy that was to be sent, goes no further.
  virtual void refuse(const ReferencePacket& packet, DropReason reason) {
    (void)packet, (void)reason;
  }
  /// What NORMAL does with VLANs at a port; null: the port is a trunk of all.
  [[nodiscard]] virtual const PortVlans* vlans(PortNo port) const {
    (void)port;
    return nullptr;
  }
  /// Whether NORMAL forwards to 01:80:c2:00:00:0x.
  [[nodiscard]] virtual bool forwards_reserved() const { return false; }
};

struct ReferencePacket {
  ReferenceSwitch& sw;
  PortNo in_port;
  rte_mbuf* mbuf;
  match::FlowKey key{};
  packet::ParsedPacket parsed{};
  bool table_miss{false};  ///< the rule at work is a table-miss entry

  /// Reads everything again.
  void refresh() { match::refresh(packet::Depth::full, mbuf, key, parsed); }
};

/// An edit's outcome, with the fields read again if it was done.
inline bool refreshed(ReferencePacket& packet, bool done) {
  if (done) packet.refresh();
  return done;
}

}  // namespace headrace::pipeline
