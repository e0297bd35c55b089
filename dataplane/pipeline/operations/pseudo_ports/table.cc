// SPDX-License-Identifier: Apache-2.0
// TABLE: through the flow tables, for packet-outs only. The packets come in when the list is done.
#include "pipeline/execute/transmit.h"
#include "pipeline/program/pseudo_port.h"

namespace headrace::pipeline {
namespace {

void run(Execution& x, OpBurst& burst) {
  std::array<rte_mbuf*, kBurst> packets;
  take_or_copy(x, burst, packets.data());
  for (size_t k = 0; k < burst.count; ++k) {
    if (packets[k] == nullptr) continue;
    if (x.n_to_table == x.to_table.size()) {
      x.drop(packets[k], DropReason::no_buffer);
    } else {
      x.to_table[x.n_to_table++] = packets[k];
    }
  }
  if (burst.last) burst.count = 0;
}

/// The reference takes no packet-outs.
void reference(ReferencePacket&, const OutputAction&) {}

}  // namespace

extern const PseudoPort pseudo_port_table{.number = kPortTable,
                                          .name = "TABLE",
                                          .packet_out_only = true,
                                          .run = run,
                                          .reference = reference};

}  // namespace headrace::pipeline
