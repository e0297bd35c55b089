// SPDX-License-Identifier: Apache-2.0
// CONTROLLER: a packet-in to the controllers that listen.
#include "pipeline/execute/transmit.h"
#include "pipeline/operations/reference_packet.h"
#include "pipeline/program/pseudo_port.h"

namespace headrace::pipeline {
namespace {

PuntReason reason_of(bool table_miss) {
  return table_miss ? PuntReason::no_match : PuntReason::action;
}

void run(Execution& x, OpBurst& burst) {
  std::array<rte_mbuf*, kBurst> packets;
  take_or_copy(x, burst, packets.data());
  for (size_t k = 0; k < burst.count; ++k) {
    if (packets[k] == nullptr) continue;
    const PacketView view = burst.view(k);
    const RuleBody& rule = *burst.rule[k];
    punt(x, {packets[k], view.key, view.parsed}, rule, reason_of(rule.table_miss),
         static_cast<uint16_t>(burst.ops[k]->argument));
  }
  if (burst.last) burst.count = 0;
}

void reference(ReferencePacket& packet, const OutputAction&) {
  packet.sw.punt(packet, reason_of(packet.table_miss));
}

}  // namespace

extern const PseudoPort pseudo_port_controller{
    .number = kPortController, .name = "CONTROLLER", .run = run, .reference = reference};

}  // namespace headrace::pipeline
