// SPDX-License-Identifier: Apache-2.0
// Words of FlowKey in which all rules of a table ask for the same (eth_type, mostly): compared once
// per packet, and left out where rules are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "match/fields/masked_words.h"
#include "match/structures/classifier_kind.h"

namespace headrace::match {

class SameWords {
 public:
  SameWords() = default;
  /// Those of `among` in which the rules, of which there is one at least, have one mask and value.
  SameWords(std::span<const RuleRef> rules, WordSet among) {
    FlowKey mask;
    for (size_t at = 0; at < kFieldWords; ++at) {
      if ((among >> at & 1) == 0 || !agree_in(rules, at)) continue;
      set_word(mask, at, word(rules[0].match->mask, at));
      set_word(value_, at, word(rules[0].match->value, at));
    }
    words_ = MaskedWords(mask);
  }

  [[nodiscard]] WordSet set() const { return words_.set(); }

  /// True if the match asks for the same in these words.
  [[nodiscard]] bool holds(const Match& match) const {
    for (size_t k = 0; k < words_.size(); ++k) {
      const size_t at = words_.position(k);
      if (word(match.mask, at) != words_.mask(k)) return false;
      if (word(match.value, at) != word(value_, at)) return false;
    }
    return true;
  }

  /// Worker: of the packets of `active` those that have these words. Their slots, and their
  /// positions in `active`; returns how many.
  size_t select(const FlowKey* burst, std::span<const uint8_t> active, uint8_t* slots,
                uint8_t* positions) const noexcept {
    size_t left = 0;
    for (size_t i = 0; i < active.size(); ++i) {
      const uint8_t slot = active[i];
      uint64_t difference = 0;
      for (size_t k = 0; k < words_.size(); ++k) {
        difference |= words_.key_word(burst[slot], k) ^ word(value_, words_.position(k));
      }
      slots[left] = slot;
      positions[left] = static_cast<uint8_t>(i);
      left += difference == 0 ? 1 : 0;
    }
    return left;
  }

 private:
  static bool agree_in(std::span<const RuleRef> rules, size_t at) {
    const Match& first = *rules[0].match;
    return std::all_of(rules.begin(), rules.end(), [&](const RuleRef& rule) {
      return word(rule.match->mask, at) == word(first.mask, at) &&
             word(rule.match->value, at) == word(first.value, at);
    });
  }

  FlowKey value_{};
  MaskedWords words_;
};

}  // namespace headrace::match
