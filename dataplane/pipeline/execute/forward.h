// SPDX-License-Identifier: Apache-2.0
// Rules of the forward class, homogeneous, on many packets: where a switch spends its time.
//
// Rules are homogeneous if they make the same kinds of edits and send to the same port. What they
// write (which MAC addresses) and what they count may differ: the routes of a table whose neighbors
// are behind one port are homogeneous. So the loop over the packets decides nothing per packet but
// whether a TTL expires.
//
// Two variants: one of portable code for all frames, one for AVX2 that serves a burst of untagged
// IPv4 frames, at the level avx512 too. There TTL, checksum and both MAC addresses lie in the first
// 32 bytes of the frame, which change in one register.
//
// Thread safety: pure functions of their arguments; counts are the calling worker's own.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <span>

#include "match/fields/extract.h"
#include "packet/parse.h"
#include "pipeline/program/counters.h"
#include "pipeline/program/program.h"

namespace headrace::pipeline {

/// Packets and the rules that they hit.
struct ForwardBurst {
  const Rule* all_rules;
  const uint32_t* rules;            ///< of packet active[k]: all_rules[rules[k]]
  std::span<const uint8_t> active;  ///< positions, ascending
  rte_mbuf* const* packets;         ///< by position
  const packet::ParsedPacket* parsed;
  const uint32_t* lengths;  ///< of the packets
  Count* counts;            ///< by the rules' counter; null: counted already
  match::BurstMetadata burst_metadata{};
};

/// What became of them.
struct Forwarded {
  size_t count{0};      ///< packets written to `leaving`
  uint64_t bytes{0};    ///< of those
  uint32_t expired{0};  ///< bit k: active[k] was left as it is, its TTL would not last
};

/// True if the rules of all packets are alike, in the sense above, and none notes its use.
[[nodiscard]] bool is_homogeneous(const ForwardBurst& burst) noexcept;

/// Counts the packets, edits them as their rules say, and puts those that may leave into `leaving`
/// (room for all) in order. The rules must be homogeneous.
[[nodiscard]] Forwarded forward_homogeneous(const ForwardBurst& burst, rte_mbuf** leaving) noexcept;

}  // namespace headrace::pipeline
