// SPDX-License-Identifier: Apache-2.0
#include "match/structures/tree_search.h"

#include <bit>

namespace headrace::match {
namespace {

struct Portable {
  static uint64_t gather_bits(uint64_t from, uint64_t bits) {
    return gather_bits_portable(from, bits);
  }
  static int count_bits(uint64_t bits) { return std::popcount(bits); }

  static uint32_t candidates(const SignatureBlock& block, uint16_t signature) {
    uint32_t candidates = 0;
    for (size_t rule = 0; rule < SignatureBlock::kRules; ++rule) {
      candidates |= uint32_t{(signature & block.masks[rule]) == block.values[rule]} << rule;
    }
    return candidates;
  }
};

}  // namespace

void search_trees(const TreeView& view, const FlowKey* burst, const uint8_t* slots, size_t count,
                  Ranked* best) noexcept {
  if (view.words.size() == 2) return search_by<Portable, 2>(view, burst, slots, count, best);
  search_by<Portable, 0>(view, burst, slots, count, best);
}

}  // namespace headrace::match
