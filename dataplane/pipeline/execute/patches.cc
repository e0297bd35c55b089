// SPDX-License-Identifier: Apache-2.0
// What leaves by a patch and comes in at its other end in the same call: bursts of the patch queue,
// those for a LOCAL port where tunnels end, and fragments on their way to be whole.
#include <rte_prefetch.h>

#include "pipeline/execute/context.h"
#include "pipeline/execute/defragmenter.h"
#include "pipeline/execute/tunnel_port.h"
#include "pipeline/program/published_program.h"

namespace headrace::pipeline {

/// Takes packets for a LOCAL port where tunnels end: theirs go in by the tunnel ports, the others
/// on to the host.
void Executor::Context::terminate(const TunnelIngress& tunnels) noexcept {
  using What = TunnelIngress::Verdict::What;
  const LsiProgram& underlay = tunnels.underlay().program();
  begin(underlay, nullptr, kPortLocal, patch.depth, underlay.depth);
  const std::span<rte_mbuf*> arrived(patch.packets.data(), patch.count);
  for (rte_mbuf* packet : arrived) rte_prefetch0(rte_pktmbuf_mtod(packet, const void*));
  for (rte_mbuf* packet : arrived) {
    const TunnelIngress::Verdict verdict = tunnels.classify(packet);
    switch (verdict.what) {
      case What::tunnel:
        tx.push(*verdict.inlet, packet, patch.depth + 1, *burst.worker);
        break;
      case What::drop:
        runner.drop(burst, packet, verdict.reason);
        break;
      case What::neighbor:
        runner.tell_of_neighbor(burst, packet);
        [[fallthrough]];
      case What::host:
        tx.push_device(*patch.port, packet, *burst.worker);
        break;
    }
  }
}

/// Leaves the whole packets in front; how many they are.
size_t Executor::Context::reassemble(Defragmenter& defragmenter,
                                     std::span<rte_mbuf*> fragments) noexcept {
  size_t whole = 0;
  for (rte_mbuf* fragment : fragments) {
    rte_mbuf* packet = defragmenter.take(worker, fragment, tsc);
    if (packet != nullptr) fragments[whole++] = packet;
  }
  const unsigned unusable = defragmenter.finish(worker, tsc);
  if (unusable != 0) {
    add(burst.worker->drops[static_cast<size_t>(DropReason::fragment)], unusable);
  }
  return whole;
}

void Executor::Context::run_patches() noexcept {
  while (tx.take_patch(patch)) {
    if (patch.port->io.load(std::memory_order_relaxed) != nullptr) {
      const TunnelIngress* tunnels = patch.port->ingress_tunnels.load(std::memory_order_acquire);
      if (tunnels != nullptr) {
        terminate(*tunnels);
      } else {  // the last tunnel has just gone
        for (rte_mbuf* packet : std::span(patch.packets.data(), patch.count)) {
          tx.push_device(*patch.port, packet, *burst.worker);
        }
      }
      continue;
    }
    const PublishedProgram* peer = patch.port->peer.load(std::memory_order_acquire);
    if (peer != nullptr && patch.port->defragmenter != nullptr) {
      patch.count = static_cast<uint16_t>(
          reassemble(*patch.port->defragmenter, {patch.packets.data(), patch.count}));
      if (patch.count == 0) continue;
    }
    const PortNo number = patch.port->peer_port.load(std::memory_order_relaxed);
    const LsiProgram* program = peer == nullptr ? nullptr : &peer->program();
    const Port* in_port = program == nullptr ? nullptr : program->port(number);
    const std::span<rte_mbuf*> packets(patch.packets.data(), patch.count);
    const DropReason refusal = in_port == nullptr
                                   ? DropReason::patch_unconnected
                                   : in_port->receive_refusal.load(std::memory_order_relaxed);
    if (refusal != DropReason::none) {
      PortCounts& counts =
          const_cast<Port*>(in_port == nullptr ? patch.port : in_port)->counts[worker];
      add(in_port == nullptr ? counts.tx_dropped : counts.rx_dropped, packets.size());
      for (rte_mbuf* packet : packets) runner.drop(burst, packet, refusal);
      continue;
    }
    run_burst(*program, in_port, number, patch.depth, packets, true);
  }
}

}  // namespace headrace::pipeline
