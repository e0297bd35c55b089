// SPDX-License-Identifier: Apache-2.0
// What a VNF's end does with all descriptors of a burst at once, in vectors.
//
// A descriptor is one word of 64 bits: buffer (the low 32), begin, length (layout.h). The loops
// have no branches, so the compiler turns them into vectors of whatever the processor has: each is
// compiled for AVX-512, for AVX2 and for any processor, and burst_functions() chooses once.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "shm/layout.h"

namespace headrace::shm {

struct BurstFunctions {
  /// Whether all packets are inside buffers of `stride` octets with numbers below `n_buffers`.
  bool (*are_inside)(const Packet* packets, uint32_t count, uint32_t n_buffers, uint32_t stride);
  /// Whether both have the same buffers in the same order.
  bool (*same_buffers)(const Packet* a, const Packet* b, uint32_t count);
  /// The sum of their lengths.
  uint64_t (*octets_of)(const Packet* packets, uint32_t count);
  const char* name;
};

/// The variants that this processor runs, the fastest first; the last one runs on any.
[[nodiscard]] std::span<const BurstFunctions> burst_variants();

/// The fastest.
[[nodiscard]] inline const BurstFunctions& burst_functions() {
  return burst_variants().front();
}

}  // namespace headrace::shm
