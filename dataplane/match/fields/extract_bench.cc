// SPDX-License-Identifier: Apache-2.0
// Cycles per packet of extraction on hot packets, by level of vector instructions (0 portable,
// 1 AVX2, 2 AVX-512), depth and kind of packet (untagged, tagged, IPv6). To compare levels, run
// with --benchmark_repetitions=9 --benchmark_enable_random_interleaving=true.
#include <array>
#include <memory>
#include <vector>

#include "match/fields/bench_cycles.h"
#include "match/fields/extract.h"
#include "match/fields/simd.h"
#include "match/structures/classifier.h"
#include "packet/test_packet.h"

namespace headrace::match {
namespace {

using packet::FrameBuilder;
using packet::TestPacket;

std::vector<uint8_t> frame_of(int kind) {
  FrameBuilder builder;
  switch (kind) {
    case 1:
      return builder.ethernet(0x8100).vlan(100, 0x0800).ipv4(17).udp(1, 2).payload(18).frame();
    case 2:
      return builder.ethernet(0x86dd).ipv6(17).udp(1, 2).payload(18).frame();
    default:
      return builder.ethernet(0x0800).ipv4(17).udp(1, 2).payload(18).frame();
  }
}

void extract(benchmark::State& state) {
  std::vector<std::unique_ptr<TestPacket>> packets;
  std::array<rte_mbuf*, kBurst> burst;
  for (rte_mbuf*& each : burst) {
    packets.push_back(std::make_unique<TestPacket>(frame_of(static_cast<int>(state.range(1)))));
    each = packets.back()->mbuf();
  }
  static FlowKey values[kBurst];
  static packet::ParsedPacket parsed[kBurst];
  set_simd(static_cast<Simd>(state.range(2)));
  const Extractor extractor = extractor_for(static_cast<Depth>(state.range(0)));
  CycleMeter meter(kBurst);
  for (auto _ : state) {
    meter.measure([&] {
      extractor(burst, {1, 1}, values, parsed);
      benchmark::ClobberMemory();
    });
  }
  meter.report(state);
}
BENCHMARK(extract)
    ->ArgNames({"depth", "kind", "simd"})
    ->ArgsProduct({{0, 1, 2, 3}, {0, 1, 2}, simd_arguments()});

}  // namespace
}  // namespace headrace::match

BENCHMARK_MAIN();
