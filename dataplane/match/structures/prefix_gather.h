// SPDX-License-Identifier: Apache-2.0
// The prefix table's look-up for vector instructions: the packets of a burst are lanes of
// registers, sixteen of AVX-512 or eight of AVX2.
//
// Addresses, root entries and the entries of nodes are gathered, so that the misses of a whole
// burst are under way together and no packet costs more than a few instructions. A gather reads
// each entry with one aligned 32-bit load, so an entry that changes meanwhile is seen as it was or
// as it is, as in the portable look-up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "match/fields/fields.h"
#include "match/fields/simd.h"
#include "match/structures/trie_node_pool.h"

namespace headrace::match {

/// An entry with this bit holds the number of a node in the others.
inline constexpr uint32_t kNode = 0x80000000;
/// An entry that no prefix covers.
inline constexpr uint32_t kNone = 0x7fffffff;
/// The packet lacks the exact part; never in an entry.
inline constexpr uint32_t kForeign = 0x7ffffffe;

/// A prefix table of a field of whole four-octet words (IPv4, IPv6) and one exact word, as a
/// look-up sees it.
struct PrefixView {
  const uint32_t* root;
  const Node* nodes;
  size_t field_offset;
  size_t exact_position;
  uint64_t exact_mask;
  uint64_t exact_key;
  bool exact_same;     ///< the exact word is the same in all packets
  uint32_t whole;      ///< the rule of length 0; kNone without one
  uint32_t otherwise;  ///< the result where no rule matches
};

/// Bit i set: packet active[i] has the exact part. One word is compared; mostly all packets agree.
inline uint32_t with_exact_part(const PrefixView& table, const FlowKey* burst,
                                std::span<const uint8_t> active) {
  const size_t count = table.exact_same ? 1 : active.size();
  const auto difference_of = [&](uint8_t slot) {
    return (word(burst[slot], table.exact_position) & table.exact_mask) ^ table.exact_key;
  };
  uint64_t difference = 0;
  for (size_t i = 0; i < count; ++i) difference |= difference_of(active[i]);
  if (difference == 0) return ~0u;
  if (table.exact_same) return 0;
  uint32_t mine = 0;
  for (size_t i = 0; i < count; ++i) mine |= uint32_t{difference_of(active[i]) == 0} << i;
  return mine;
}

/// As PrefixTable::lookup().
using PrefixLookup = void (*)(const PrefixView& table, const FlowKey* burst,
                              std::span<const uint8_t> active, uint32_t* results) noexcept;

/// Each variant; null in builds without it. `kRootOctets`: 2 or 3.
template <size_t kRootOctets>
[[nodiscard]] PrefixLookup prefix_lookup_avx2() noexcept;
template <size_t kRootOctets>
[[nodiscard]] PrefixLookup prefix_lookup_avx512() noexcept;

/// The variant for what simd() says; null where that is portable.
template <size_t kRootOctets>
[[nodiscard]] PrefixLookup prefix_lookup() noexcept {
  switch (simd()) {
    case Simd::avx512:
      return prefix_lookup_avx512<kRootOctets>();
    case Simd::avx2:
      return prefix_lookup_avx2<kRootOctets>();
    case Simd::portable:
      break;
  }
  return nullptr;
}

}  // namespace headrace::match
