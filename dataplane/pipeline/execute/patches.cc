// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/patches.h"

#include <rte_prefetch.h>

#include "pipeline/execute/classification.h"
#include "pipeline/execute/receive_features.h"
#include "pipeline/execute/transmit.h"
#include "pipeline/execute/tunnel_port.h"
#include "pipeline/program/published_program.h"

namespace headrace::pipeline {
namespace {

/// Takes packets for a LOCAL port where tunnels end: theirs go in by the tunnel ports, the others
/// on to the host.
void terminate(Execution& x, const TunnelIngress& tunnels) noexcept {
  using What = TunnelIngress::Verdict::What;
  const LsiProgram& underlay = tunnels.underlay().program();
  begin_burst(x, underlay, nullptr, kPortLocal, x.patch.depth, underlay.depth);
  const std::span<rte_mbuf*> arrived(x.patch.packets.data(), x.patch.count);
  for (rte_mbuf* packet : arrived) rte_prefetch0(rte_pktmbuf_mtod(packet, const void*));
  for (rte_mbuf* packet : arrived) {
    const TunnelIngress::Verdict verdict = tunnels.classify(packet);
    switch (verdict.what) {
      case What::tunnel:
        x.tx.push(*verdict.inlet, packet, x.patch.depth + 1, *x.burst.worker);
        break;
      case What::drop:
        x.drop(packet, verdict.reason);
        break;
      case What::neighbor:
        punt_neighbor(x, packet);
        [[fallthrough]];
      case What::host:
        x.tx.push_device(*x.patch.port, packet, *x.burst.worker);
        break;
    }
  }
}

}  // namespace

void run_patches(Execution& x) noexcept {
  while (x.tx.take_patch(x.patch)) {
    if (x.patch.port->io.load(std::memory_order_relaxed) != nullptr) {
      const TunnelIngress* tunnels = x.patch.port->ingress_tunnels.load(std::memory_order_acquire);
      if (tunnels != nullptr) {
        terminate(x, *tunnels);
      } else {  // the last tunnel has just gone
        for (rte_mbuf* packet : std::span(x.patch.packets.data(), x.patch.count)) {
          x.tx.push_device(*x.patch.port, packet, *x.burst.worker);
        }
      }
      continue;
    }
    const PublishedProgram* peer = x.patch.port->peer.load(std::memory_order_acquire);
    if (peer != nullptr && x.patch.port->defragmenter != nullptr) {
      x.patch.count = static_cast<uint16_t>(
          reassemble(x, *x.patch.port->defragmenter, {x.patch.packets.data(), x.patch.count}));
      if (x.patch.count == 0) continue;
    }
    const PortNo number = x.patch.port->peer_port.load(std::memory_order_relaxed);
    const LsiProgram* program = peer == nullptr ? nullptr : &peer->program();
    const Port* in_port = program == nullptr ? nullptr : program->port(number);
    const std::span<rte_mbuf*> packets(x.patch.packets.data(), x.patch.count);
    const DropReason refusal = in_port == nullptr
                                   ? DropReason::patch_unconnected
                                   : in_port->receive_refusal.load(std::memory_order_relaxed);
    if (refusal != DropReason::none) {
      PortCounts& counts =
          const_cast<Port*>(in_port == nullptr ? x.patch.port : in_port)->counts[x.worker];
      add(in_port == nullptr ? counts.tx_dropped : counts.rx_dropped, packets.size());
      for (rte_mbuf* packet : packets) x.drop(packet, refusal);
      continue;
    }
    if (receive(x, *program, in_port, number, x.patch.depth, packets, true)) run_tables(x);
  }
}

}  // namespace headrace::pipeline
