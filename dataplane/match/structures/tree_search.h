// SPDX-License-Identifier: Apache-2.0
// The look-up of decision trees, for the source files of its variants.
//
// All packets of a burst go down a tree level by level, so that their misses overlap. A packet
// stops where nothing behind its slot can be better than what it has. Which packets go on is
// decided without a branch. Then the leaves that packets came to are read in two passes: the first
// compares signatures of a leaf's first sixteen rules and fetches the rule that they point to, the
// second compares rules, and further signatures where there are some.
#pragma once

#include "match/structures/classifier.h"
#include "match/structures/tree_leaf.h"
#include "match/structures/tree_node.h"

namespace headrace::match {

/// A packet at a leaf.
struct AtLeaf {
  const uint64_t* leaf;
  const uint64_t* rule;  ///< the first candidate; any where there is none
  uint32_t candidates;   ///< of the first sixteen rules, one bit each
  uint16_t signature;
  uint8_t packet;
  bool long_leaf;  ///< more than sixteen rules
};

/// The packet's bits that a leaf's signatures are made of.
template <typename Ops, size_t kWords>
[[gnu::always_inline]] inline uint16_t signature_of(const uint64_t* leaf, const uint8_t* words,
                                                    size_t n_words, const FlowKey& packet) {
  uint64_t signature = 0;
  for (size_t w = 0; w < (kWords != 0 ? kWords : n_words); ++w) {
    const uint64_t bits = leaf[1 + w];
    signature = signature << Ops::count_bits(bits) | Ops::gather_bits(word(packet, words[w]), bits);
  }
  return static_cast<uint16_t>(signature);
}

/// True if the packet has what the rule asks for.
template <size_t kWords>
[[gnu::always_inline]] inline bool is_hit(const uint64_t* rule, const uint8_t* words,
                                          size_t n_words, const FlowKey& packet) {
  const size_t width = kWords != 0 ? kWords : n_words;
  uint64_t difference = 0;
  for (size_t w = 0; w < width; ++w) {
    difference |= (word(packet, words[w]) & rule[1 + width + w]) ^ rule[1 + w];
  }
  return difference == 0;
}

/// The better of `best` and the first rule of the leaf that matches, the first candidate left out.
template <typename Ops, size_t kWords>
[[gnu::always_inline]] inline Ranked best_of_rest(const AtLeaf& at, const uint8_t* words,
                                                  size_t n_words, const FlowKey& packet,
                                                  Ranked best) {
  // Workers only read; TreeLeaf serves the control thread, too.
  const TreeLeaf leaf(const_cast<uint64_t*>(at.leaf), kWords != 0 ? kWords : n_words);
  const size_t blocks = leaf.blocks();
  uint32_t candidates = at.candidates & (at.candidates - 1);
  for (size_t block = 0;;) {
    for (; candidates != 0; candidates &= candidates - 1) {
      const auto lane = static_cast<size_t>(__builtin_ctz(candidates));
      const uint64_t* const rule = leaf.rule(block * SignatureBlock::kRules + lane);
      if (!is_hit<kWords>(rule, words, n_words, packet)) continue;
      const Ranked result = __atomic_load_n(rule, __ATOMIC_RELAXED);
      return result > best ? result : best;
    }
    if (++block >= blocks || !better_than(leaf.first_priority(block), best)) return best;
    candidates = Ops::candidates(leaf.block(block), at.signature);
  }
}

/// `Ops` are a variant's gather_bits(), count_bits() and candidates(). Inlined, so that it is of
/// the variant's target.
template <typename Ops, size_t kWords>
[[gnu::always_inline]] inline void search_by(const TreeView& view, const FlowKey* burst,
                                             const uint8_t* slots, size_t count,
                                             Ranked* best) noexcept {
  const TreeSlot* at[kBurst];
  uint8_t going[kBurst];
  AtLeaf leaves[kBurst];
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
        leaves[found].leaf = reinterpret_cast<const uint64_t*>(child);
        leaves[found].packet = i;
        found += static_cast<size_t>(open & (bits == 0));
        at[on] = child;
        going[on] = i;
        on += static_cast<size_t>(open & (bits != 0));
      }
      left = on;
    }
    for (size_t k = 0; k < found; ++k) {
      const auto* const leaf = reinterpret_cast<const uint8_t*>(leaves[k].leaf);
      __builtin_prefetch(leaf + kCacheLine);
      __builtin_prefetch(leaf + 2 * kCacheLine);
    }
    for (size_t k = 0; k < found; ++k) {
      AtLeaf& each = leaves[k];
      const TreeLeaf leaf(const_cast<uint64_t*>(each.leaf), n_words);
      each.signature =
          signature_of<Ops, kWords>(each.leaf, words, n_words, burst[slots[each.packet]]);
      each.candidates = Ops::candidates(leaf.block(0), each.signature);
      // Lane 16, of no candidate, becomes 0.
      const auto lane = static_cast<size_t>(__builtin_ctz(each.candidates | 0x10000)) % 16;
      each.rule = leaf.rule(lane);
      each.long_leaf = leaf.blocks() > 1;
      __builtin_prefetch(each.rule);
    }
    for (size_t k = 0; k < found; ++k) {
      const AtLeaf& each = leaves[k];
      const FlowKey& packet = burst[slots[each.packet]];
      Ranked& so_far = best[each.packet];
      // Most leaves are done with the first candidate, which is taken without a branch.
      const bool hit = is_hit<kWords>(each.rule, words, n_words, packet) & (each.candidates != 0);
      const Ranked result = __atomic_load_n(each.rule, __ATOMIC_RELAXED);
      so_far = (hit & (result > so_far)) ? result : so_far;
      const bool more = (each.candidates & (each.candidates - 1)) != 0;
      if ((more | each.long_leaf) & (hit ^ true)) {
        so_far = best_of_rest<Ops, kWords>(each, words, n_words, packet, so_far);
      }
    }
  }
}

}  // namespace headrace::match
