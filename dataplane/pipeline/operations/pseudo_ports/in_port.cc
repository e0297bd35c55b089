// SPDX-License-Identifier: Apache-2.0
// IN_PORT: the port that a packet came in by, which no other output may name.
#include "pipeline/execute/transmit.h"
#include "pipeline/operations/reference_packet.h"
#include "pipeline/program/pseudo_port.h"

namespace headrace::pipeline {
namespace {

void run(Execution& x, OpBurst& burst) {
  const Port* port = x.burst.in_port;
  const DropReason refusal = port == nullptr ? DropReason::port_missing
                                             : port->send_refusal.load(std::memory_order_relaxed);
  std::array<rte_mbuf*, kBurst> packets;
  take_or_copy(x, burst, packets.data());
  for (size_t k = 0; k < burst.count; ++k) {
    if (packets[k] == nullptr) continue;
    if (refusal != DropReason::none) {
      x.drop(packets[k], refusal);
    } else {
      const PacketView view = burst.view(k);
      send(x, {packets[k], view.key, view.parsed}, *port);
    }
  }
  if (burst.last) burst.count = 0;
}

void reference(ReferencePacket& packet, const OutputAction&) {
  packet.sw.send(packet, packet.in_port);
}

}  // namespace

extern const PseudoPort pseudo_port_in_port{
    .number = kPortInPort, .name = "IN_PORT", .run = run, .reference = reference};

}  // namespace headrace::pipeline
