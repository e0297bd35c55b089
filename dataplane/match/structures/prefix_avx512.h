// SPDX-License-Identifier: Apache-2.0
// The prefix table's look-up for AVX-512: sixteen packets are the lanes of one register.
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

/// A prefix table of a four-octet field and one exact word, as a look-up sees it.
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

/// As PrefixTable::lookup(), where simd() is avx512. `kRootOctets`: 2 or 3.
template <size_t kRootOctets>
void lookup_prefixes_avx512(const PrefixView& table, const FlowKey* burst,
                            std::span<const uint8_t> active, uint32_t* results) noexcept;

}  // namespace headrace::match
