// SPDX-License-Identifier: Apache-2.0
#include "pipeline/operations/flooding.h"

#include "pipeline/execute/transmit.h"

namespace headrace::pipeline {

void send_to_all(Execution& x, OpBurst& burst) {
  const bool last = burst.last;
  for (const Port* port : x.burst.program->ports) {
    if (port == x.burst.in_port ||
        port->send_refusal.load(std::memory_order_relaxed) != DropReason::none) {
      continue;
    }
    std::array<rte_mbuf*, kBurst> copies;
    copy_each(x, burst, copies.data());
    send_burst(x, burst, copies.data(), *port);
  }
  if (!last) return;
  for (size_t k = 0; k < burst.count; ++k) x.tx.free(burst.block->packets[burst.at[k]]);
  burst.count = 0;
}

void reference_send_to_all(ReferencePacket& packet, const OutputAction&) {
  for (const PortNo port : packet.sw.flood_ports(packet)) packet.sw.send(packet, port);
}

}  // namespace headrace::pipeline
