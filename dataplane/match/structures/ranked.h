// SPDX-License-Identifier: Apache-2.0
// A rule's number with its priority, as one comparable word.
#pragma once

#include <cstdint>

namespace headrace::match {

/// What an entry yields: bit 63 set, priority in bits 32..47, rule index in the low half. So of two
/// results the greater is of the higher priority, and 0 is no result.
using Ranked = uint64_t;

constexpr Ranked ranked(uint16_t priority, uint32_t index) {
  return Ranked{1} << 63 | Ranked{priority} << 32 | index;
}
constexpr uint16_t priority_of(Ranked result) {
  return static_cast<uint16_t>(result >> 32);
}
constexpr uint32_t index_of(Ranked result) {
  return static_cast<uint32_t>(result);
}

}  // namespace headrace::match
