// SPDX-License-Identifier: Apache-2.0
// The mixing step of the control side's hashes.
#pragma once

#include <cstdint>

namespace headrace::match {

/// Both halves of the 128-bit product: every bit of either factor reaches the low bits, which
/// choose a bucket, whatever bits the keys differ in.
[[nodiscard]] inline uint64_t fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace headrace::match
