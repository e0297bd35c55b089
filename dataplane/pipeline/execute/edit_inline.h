// SPDX-License-Identifier: Apache-2.0
// The edits of the forward class, inlined where packets pass.
#pragma once

#include <cstdint>
#include <cstring>

#include "packet/parse.h"
#include "pipeline/program/program.h"

namespace headrace::pipeline {

/// Replaces the first 16 bytes of a frame under a mask: both MAC addresses in one store.
inline void write_masked(uint8_t* frame, const uint8_t* new_value, const uint8_t* new_mask) {
  using Vector = uint64_t __attribute__((vector_size(16)));
  Vector now;
  Vector mask;
  Vector value;
  std::memcpy(&now, frame, sizeof now);
  std::memcpy(&mask, new_mask, sizeof mask);
  std::memcpy(&value, new_value, sizeof value);
  now = (now & ~mask) | value;
  std::memcpy(frame, &now, sizeof now);
}

/// The same as a rule of the forward class says.
inline void rewrite_l2(uint8_t* frame, const Rule& rule) {
  write_masked(frame, rule.forward.l2_value, rule.forward.l2_mask);
}

/// True if dec_ttl would not let this packet pass.
inline bool ttl_expires(const uint8_t* frame, const packet::ParsedPacket& parsed) {
  if (parsed.has(packet::kIpv4)) return frame[parsed.l3 + 8] <= 1;
  if (parsed.has(packet::kIpv6)) return frame[parsed.l3 + 7] <= 1;
  return false;
}

}  // namespace headrace::pipeline
