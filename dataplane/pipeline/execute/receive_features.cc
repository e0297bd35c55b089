// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/receive_features.h"

#include <array>

#include "pipeline/execute/defragmenter.h"
#include "pipeline/execute/mirror_copies.h"
#include "pipeline/execute/tunnel_port.h"
#include "pipeline/program/mirror.h"
#include "pipeline/program/receive_feature.h"

namespace headrace::pipeline {
namespace {

/// A burst on its way in.
struct Arrival {
  const Port* in_port;
  bool arrived;       ///< by the port, not from a packet-out
  bool counted;       ///< at the port
  PacketSet members;  ///< extracted packets that go on to the tables
};

struct ReceiveFeature {
  ReceiveFeatureBit bit;
  bool before_extraction;
  void (*run)(Execution& x, Arrival& arrival);
};

void count_received(Execution& x, Arrival& arrival, uint64_t bytes) noexcept {
  PortCounts& counts = const_cast<Port*>(arrival.in_port)->counts[x.worker];
  add(counts.rx_packets, x.burst.count);
  add(counts.rx_bytes, bytes);
  arrival.counted = true;
}

/// What came in counts as it came, so before fragments become fewer packets.
void reassemble_fragments(Execution& x, Arrival& arrival) {
  const std::span<rte_mbuf*> packets(x.main.packets, x.burst.count);
  if (arrival.arrived) {
    uint64_t bytes = 0;
    for (const rte_mbuf* packet : packets) bytes += packet->pkt_len;
    count_received(x, arrival, bytes);
  }
  x.burst.count = reassemble(x, *x.burst.program->defragmenter, packets);
}

void take_fields_of_tunnel(Execution& x, Arrival&) {
  take_tunnel_fields({x.main.packets, x.burst.count}, x.main.keys, x.burst.parse_depth);
  x.burst.metadata.differ = match::kAllWords;
}

void mirror_received(Execution& x, Arrival& arrival) {
  const PortMirrors* mirrors = arrival.in_port->mirrors.load(std::memory_order_acquire);
  if (mirrors == nullptr) return;
  for (size_t i = 0; i < x.burst.count; ++i) {
    mirror_mark(x.main.packets[i]) = 0;
    if (arrival.arrived) mirror(x, x.main.packets[i], *arrival.in_port, mirrors->received);
  }
}

void drop_fragments(Execution& x, Arrival& arrival) {
  for (size_t i = 0; i < x.burst.count; ++i) {
    if (!x.main.parsed[i].has(packet::kFragment)) continue;
    arrival.members &= ~(PacketSet{1} << i);
    x.drop(x.main.packets[i], DropReason::fragment);
  }
}

constexpr std::array<ReceiveFeature, 4> kFeatures = {{
    {kReceiveReassemble, true, reassemble_fragments},
    {kReceiveTunnelFields, false, take_fields_of_tunnel},
    {kReceiveMirror, false, mirror_received},
    {kReceiveDropFragments, false, drop_fragments},
}};

void run_features(Execution& x, Arrival& arrival, unsigned wanted, bool before) {
  for (const ReceiveFeature& feature : kFeatures) {
    if ((wanted & feature.bit) != 0 && feature.before_extraction == before) feature.run(x, arrival);
  }
}

}  // namespace

void begin_burst(Execution& x, const LsiProgram& program, const Port* in_port, PortNo number,
                 unsigned depth, packet::Depth parse_depth) noexcept {
  Burst& burst = x.burst;
  burst.program = &program;
  burst.in_port = in_port;
  burst.in_port_number = number;
  burst.depth = depth;
  burst.parse_depth = parse_depth;
  burst.counts = program.counters->of_worker(x.worker);
  burst.worker = &program.counters->worker_counts(x.worker);
  burst.with_set = 0;
  burst.had_output = 0;
}

bool receive(Execution& x, const LsiProgram& program, const Port* in_port, PortNo number,
             unsigned depth, std::span<rte_mbuf*> packets, bool arrived) noexcept {
  begin_burst(x, program, in_port, number, depth, program.depth);
  Burst& burst = x.burst;
  x.main = {packets.data(), x.keys.data(), x.parsed.data(), x.lengths.data()};
  burst.count = packets.size();
  Arrival arrival{in_port, arrived, !arrived, 0};
  const unsigned wanted =
      program.receive_features |
      (in_port == nullptr ? 0u : in_port->receive_features.load(std::memory_order_relaxed));
  if (wanted != 0) [[unlikely]] {
    run_features(x, arrival, wanted, true);
    if (burst.count == 0) return false;
  }
  burst.metadata = program.extract({packets.data(), burst.count}, {number, number}, x.keys.data(),
                                   x.parsed.data());
  burst.bytes = 0;
  for (size_t i = 0; i < burst.count; ++i) {
    x.lengths[i] = packets[i]->pkt_len;
    burst.bytes += x.lengths[i];
  }
  arrival.members = first_packets(burst.count);
  if (wanted != 0) [[unlikely]] {
    run_features(x, arrival, wanted, false);
  }
  if (!arrival.counted) count_received(x, arrival, burst.bytes);
  if (arrival.members != 0) [[likely]]
    x.wait_at(0, arrival.members);
  return true;
}

size_t reassemble(Execution& x, Defragmenter& defragmenter,
                  std::span<rte_mbuf*> fragments) noexcept {
  size_t whole = 0;
  for (rte_mbuf* fragment : fragments) {
    rte_mbuf* packet = defragmenter.take(x.worker, fragment, x.tsc);
    if (packet != nullptr) fragments[whole++] = packet;
  }
  const unsigned unusable = defragmenter.finish(x.worker, x.tsc);
  if (unusable != 0) x.count_drop(DropReason::fragment, unusable);
  return whole;
}

}  // namespace headrace::pipeline
