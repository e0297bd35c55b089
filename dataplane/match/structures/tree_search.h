// SPDX-License-Identifier: Apache-2.0
// The look-up of decision trees, for the source files of its variants.
//
// All packets of a burst go down a tree level by level, so that their misses overlap. A packet
// stops where nothing behind its slot can be better than what it has. Which packets go on is
// decided without a branch.
#pragma once

#include "match/structures/classifier.h"
#include "match/structures/tree_node.h"

namespace headrace::match {

/// Lines of a leaf that are fetched before it is compared, beyond the first.
inline constexpr size_t kLeafLines = 3;

/// `Ops` are a variant's gather_bits() and scan(). Inlined, so that it is of the variant's target.
template <typename Ops, size_t kWords>
[[gnu::always_inline]] inline void search_by(const TreeView& view, const FlowKey* burst,
                                             const uint8_t* slots, size_t count,
                                             Ranked* best) noexcept {
  const TreeSlot* at[kBurst];
  uint8_t going[kBurst];
  uint64_t leaves[kBurst];
  uint8_t leaf_of[kBurst];
  const uint8_t* const words = view.words.data();
  const size_t n_words = kWords != 0 ? kWords : view.words.size();
  for (size_t tree = 0; tree < view.trees; ++tree) {
    const uint64_t root = __atomic_load_n(&view.roots[tree].next, __ATOMIC_ACQUIRE);
    if ((root & TreeSlot::kAddress) == 0) continue;
    size_t left = 0;
    size_t found = 0;
    for (size_t i = 0; i < count; ++i) {
      going[left] = static_cast<uint8_t>(i);
      at[left] = &view.roots[tree];
      left += tree_open(root, best[i]) ? 1 : 0;
    }
    while (left != 0) {
      size_t on = 0;
      for (size_t k = 0; k < left; ++k) {
        const uint8_t i = going[k];
        const uint64_t bits = at[k]->bits;
        const uint64_t next = __atomic_load_n(&at[k]->next, __ATOMIC_ACQUIRE);
        const uint64_t packet = word(burst[slots[i]], next & TreeSlot::kWord);
        const auto* const child = tree_child<const TreeSlot>(next) + Ops::gather_bits(packet, bits);
        __builtin_prefetch(child);
        const bool open = tree_open(next, best[i]) & ((next & TreeSlot::kAddress) != 0);
        leaves[found] = next;
        leaf_of[found] = i;
        found += static_cast<size_t>(open & (bits == 0));
        at[on] = child;
        going[on] = i;
        on += static_cast<size_t>(open & (bits != 0));
      }
      left = on;
    }
    for (size_t k = 0; k < found; ++k) {
      const auto* const leaf = tree_child<const uint8_t>(leaves[k]);
      for (size_t l = 1; l <= kLeafLines; ++l) __builtin_prefetch(leaf + l * kCacheLine);
    }
    for (size_t k = 0; k < found; ++k) {
      const uint8_t i = leaf_of[k];
      best[i] = Ops::template scan<kWords>(tree_child<const uint64_t>(leaves[k]), words, n_words,
                                           burst[slots[i]], best[i]);
    }
  }
}

}  // namespace headrace::match
