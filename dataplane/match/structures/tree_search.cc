// SPDX-License-Identifier: Apache-2.0
#include "match/structures/tree_search.h"

namespace headrace::match {
namespace {

struct Portable {
  static uint64_t gather_bits(uint64_t from, uint64_t bits) {
    return gather_bits_portable(from, bits);
  }

  /// The better of `best` and the leaf's first rule that matches.
  template <size_t kWords>
  static Ranked scan(const uint64_t* leaf, const uint8_t* words, size_t n_words,
                     const FlowKey& packet, Ranked best) {
    const auto count = static_cast<size_t>(leaf[0]);
    const uint64_t* const rules = leaf + 1 + count;
    for (size_t rule = 0; rule < count; ++rule) {
      uint64_t difference = 0;
      for (size_t w = 0; w < n_words; ++w) {
        const uint64_t* const values = rules + 2 * w * count + rule;
        difference |= (word(packet, words[w]) & values[count]) ^ values[0];
      }
      if (difference != 0) continue;
      const Ranked result = __atomic_load_n(&leaf[1 + rule], __ATOMIC_RELAXED);
      return result > best ? result : best;
    }
    return best;
  }
};

}  // namespace

void search_trees(const TreeView& view, const FlowKey* burst, const uint8_t* slots, size_t count,
                  Ranked* best) noexcept {
  if (view.words.size() == 2) return search_by<Portable, 2>(view, burst, slots, count, best);
  search_by<Portable, 0>(view, burst, slots, count, best);
}

}  // namespace headrace::match
