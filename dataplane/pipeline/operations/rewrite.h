// SPDX-License-Identifier: Apache-2.0
// Several set-fields and a dec_ttl in a row as one op: what address translation does to a packet.
//
// The compiler makes one of any run of set-fields of Ethernet addresses, IPv4 addresses and the
// ports of TCP or UDP, with at most one dec_ttl. On a packet that has these headers the values go
// in at once, and each checksum is repaired once, by the sum of all differences (RFC 1624). Any
// other packet goes through the ops as they were written, one by one, so that what they refuse is
// refused for the same reason.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/program/action_program.h"

namespace headrace::pipeline {

/// Operands of a rewrite; a cache line with all that a usual packet needs.
struct alignas(64) Rewrite {
  alignas(16) uint8_t l2_value[16]{};
  alignas(16) uint8_t l2_mask[16]{};
  uint32_t src{0};  ///< raw, under src_mask
  uint32_t src_mask{0};
  uint32_t dst{0};
  uint32_t dst_mask{0};
  uint32_t ports{0};  ///< source and destination, raw, under ports_mask
  uint32_t ports_mask{0};
  uint8_t proto{0};  ///< that the packet must have; 0: any
  bool needs_ipv4{false};
  bool dec_ttl{false};
  std::vector<Op> ops{};  ///< as written
};

/// The ops with each run that a rewrite can take over replaced by one.
[[nodiscard]] std::vector<Op> with_rewrites(std::vector<Op> ops);

}  // namespace headrace::pipeline
