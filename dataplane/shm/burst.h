// SPDX-License-Identifier: Apache-2.0
// What a VNF's end does with all descriptors of a burst at once, in vectors.
//
// A descriptor is one word of 64 bits: buffer (the low 32), begin, length (layout.h). Each function
// has a variant for AVX-512, one for AVX2 and one for any processor, chosen at run time by what the
// processor and the operating system support. libheadrace-port runs in VNFs, also in guests whose
// processor is emulated, and is built for the baseline.
//
// Slots are written by another process. take() reads each slot once: what it checks is what it
// stores, whatever happens to the slot meanwhile.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "shm/layout.h"

namespace headrace::shm {

struct BurstFunctions {
  /// Copies slots to `packets`; whether all of them are inside buffers of `stride` octets with
  /// numbers below `n_buffers`.
  bool (*take)(Packet* packets, const Packet* slots, uint32_t count, uint32_t n_buffers,
               uint32_t stride);
  /// Copies `packets` to slots; the sum of their lengths.
  uint64_t (*put)(Packet* slots, const Packet* packets, uint32_t count);
  /// Whether packets and slots name the same buffers in the same order.
  bool (*same_buffers)(const Packet* packets, const Packet* slots, uint32_t count);
  const char* name;
};

/// The variants that this processor runs, the fastest first; the last one runs on any.
[[nodiscard]] std::span<const BurstFunctions> burst_variants();

/// The fastest.
[[nodiscard]] inline const BurstFunctions& burst_functions() {
  return burst_variants().front();
}

}  // namespace headrace::shm
