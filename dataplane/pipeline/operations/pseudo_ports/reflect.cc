// SPDX-License-Identifier: Apache-2.0
// REFLECT (0xfffffff0): back out of the port that a packet came in by, with its Ethernet addresses
// swapped. So a flow becomes a loopback for path tests, whose frames come back as an Ethernet
// loopback reply does.
#include <algorithm>

#include "pipeline/execute/transmit.h"
#include "pipeline/operations/reference_packet.h"
#include "pipeline/program/pseudo_port.h"

namespace headrace::pipeline {
namespace {

/// From OpenFlow's range of reserved ports, where the specification assigns nothing.
constexpr PortNo kPortReflect = 0xfffffff0;
constexpr size_t kAddress = 6;

bool swap_addresses(rte_mbuf* packet) {
  if (packet->data_len < 2 * kAddress) return false;
  auto* frame = rte_pktmbuf_mtod(packet, uint8_t*);
  std::swap_ranges(frame, frame + kAddress, frame + kAddress);
  return true;
}

void run(Execution& x, OpBurst& burst) {
  const Port* port = x.burst.in_port;
  const DropReason refusal = port == nullptr ? DropReason::port_missing
                                             : port->send_refusal.load(std::memory_order_relaxed);
  std::array<rte_mbuf*, kBurst> packets;
  take_or_copy(x, burst, packets.data());
  for (size_t k = 0; k < burst.count; ++k) {
    if (packets[k] == nullptr) continue;
    DropReason reason = refusal;
    if (reason == DropReason::none && !swap_addresses(packets[k])) reason = DropReason::malformed;
    if (reason == DropReason::none) continue;
    x.drop(packets[k], reason);
    packets[k] = nullptr;
  }
  if (refusal == DropReason::none) send_burst(x, burst, packets.data(), *port);
  if (burst.last) burst.count = 0;
}

void reference(ReferencePacket& packet, const OutputAction&) {
  ReferencePacket own = packet;
  own.mbuf = rte_pktmbuf_copy(packet.mbuf, packet.mbuf->pool, 0, UINT32_MAX);
  if (swap_addresses(own.mbuf)) own.sw.send(own, own.in_port);
  rte_pktmbuf_free(own.mbuf);
}

}  // namespace

extern const PseudoPort pseudo_port_reflect{
    .number = kPortReflect, .name = "REFLECT", .run = run, .reference = reference};

}  // namespace headrace::pipeline
