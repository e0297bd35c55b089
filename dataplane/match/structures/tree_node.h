// SPDX-License-Identifier: Apache-2.0
// The nodes of a decision tree as workers read them.
//
// A node is an array of slots. A slot says what the child behind it is: a node that branches on
// some bits of one word of FlowKey, its number of slots being 2 to the power of these bits; or a
// leaf, which is a few rules. So every level of a look-up touches one cache line.
//
// Thread safety: a slot's `bits` never changes while a worker can see it, `next` is replaced by one
// store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "match/fields/fields.h"
#include "match/structures/hash_table.h"
#include "match/structures/tree_leaf.h"

namespace headrace::match {

struct alignas(16) TreeSlot {
  static constexpr uint64_t kWord = 0x1f;
  static constexpr uint64_t kAddress = 0xffffffffffc0;
  static constexpr unsigned kPriorityShift = 48;

  uint64_t bits{0};  ///< that the child branches on, in its word; 0: the child is a leaf
  /// Its address, 64-aligned, or 0 for no rules; in the low bits, the word that it branches on; in
  /// the high 16, a priority that none of its rules exceeds.
  uint64_t next{0};

  [[nodiscard]] bool leaf() const { return bits == 0; }
};

inline uint64_t tree_next(const void* child, size_t word, uint16_t priority) {
  return reinterpret_cast<uint64_t>(child) | word | uint64_t{priority} << TreeSlot::kPriorityShift;
}
template <typename T>
T* tree_child(uint64_t next) {
  return reinterpret_cast<T*>(next & TreeSlot::kAddress);
}
inline uint16_t tree_priority(uint64_t next) {
  return static_cast<uint16_t>(next >> TreeSlot::kPriorityShift);
}
/// True if a rule of this priority is better than `best`.
inline bool better_than(uint64_t priority, Ranked best) {
  return best >> 32 < (uint64_t{1} << 31 | priority);
}
/// True if a rule behind `next` may be better than `best`.
inline bool tree_open(uint64_t next, Ranked best) {
  return better_than(next >> TreeSlot::kPriorityShift, best);
}

/// A forest of decision trees, as a look-up sees it.
struct TreeView {
  const TreeSlot* roots;
  size_t trees;
  std::span<const uint8_t> words;  ///< positions of the words that leaves compare
};

/// A variant of search_trees().
using TreeSearch = void(const TreeView& view, const FlowKey* burst, const uint8_t* slots,
                        size_t count, Ranked* best) noexcept;

/// Worker: best[k] becomes the greater of itself and the best result for burst[slots[k]]. `count`
/// packets, at most a burst.
void search_trees(const TreeView& view, const FlowKey* burst, const uint8_t* slots, size_t count,
                  Ranked* best) noexcept;
/// Its variant for AVX2, where simd() allows it.
void search_trees_avx2(const TreeView& view, const FlowKey* burst, const uint8_t* slots,
                       size_t count, Ranked* best) noexcept;

}  // namespace headrace::match
