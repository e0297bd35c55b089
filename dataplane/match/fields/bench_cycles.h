// SPDX-License-Identifier: Apache-2.0
// For benches: TSC cycles per packet beside Google Benchmark's nanoseconds.
#pragma once

#include <benchmark/benchmark.h>
#include <rte_cycles.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "match/fields/simd.h"

namespace headrace::match {

/// Times single bursts by the invariant time stamp counter and reports the median of cycles per
/// packet: bursts that an interrupt or another process fell into do not move it.
class CycleMeter {
 public:
  explicit CycleMeter(size_t packets) : packets_(packets) { bursts_.reserve(kKept); }

  /// Runs `burst` and keeps its time.
  template <typename Burst>
  void measure(Burst&& burst) {
    const uint64_t start = rte_rdtsc_precise();
    burst();
    const uint64_t end = rte_rdtsc_precise();
    if (bursts_.size() < kKept) bursts_.push_back(end - start);
  }

  void report(benchmark::State& state) {
    const auto middle = bursts_.begin() + static_cast<long>(bursts_.size() / 2);
    std::nth_element(bursts_.begin(), middle, bursts_.end());
    state.counters["cycles/packet"] = static_cast<double>(*middle) / static_cast<double>(packets_);
  }

 private:
  static constexpr size_t kKept = size_t{1} << 20;

  size_t packets_;
  std::vector<uint64_t> bursts_;
};

/// The levels of vector instructions that this processor has, as a bench's arguments.
inline std::vector<int64_t> simd_arguments() {
  std::vector<int64_t> levels;
  for (const Simd level : simd_levels()) levels.push_back(static_cast<int64_t>(level));
  return levels;
}

}  // namespace headrace::match
