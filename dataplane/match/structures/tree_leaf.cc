// SPDX-License-Identifier: Apache-2.0
#include "match/structures/tree_leaf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <vector>

#include "match/fields/fields.h"

namespace headrace::match {
namespace {

/// Rules that bits are chosen by, at most: one bit each in a set of rules.
constexpr size_t kSample = 64;

/// A bit of a word, and the sampled rules that ask for 0 and for 1 there.
struct BitOfRules {
  size_t word;
  unsigned bit;
  uint64_t zeros;
  uint64_t ones;

  [[nodiscard]] int asked() const { return std::popcount(zeros | ones); }
};

}  // namespace

/// The bit that tells most pairs of rules apart that none tells apart yet; where none does, one
/// that most rules ask for, which tells packets from the rules.
void TreeLeaf::choose_bits() const {
  std::fill_n(bits(), words_, 0);
  const size_t step = (count_ + kSample - 1) / kSample;
  std::vector<size_t> sample;
  for (size_t at = 0; at < count_; at += step) sample.push_back(at);
  std::vector<BitOfRules> candidates;
  for (size_t w = 0; w < words_; ++w) {
    std::array<uint64_t, 64> zeros{};
    std::array<uint64_t, 64> ones{};
    for (size_t i = 0; i < sample.size(); ++i) {
      const uint64_t value = values(sample[i])[w];
      for (uint64_t left = masks(sample[i])[w]; left != 0; left &= left - 1) {
        const auto bit = static_cast<unsigned>(std::countr_zero(left));
        ((value >> bit & 1) != 0 ? ones : zeros)[bit] |= uint64_t{1} << i;
      }
    }
    for (unsigned bit = 0; bit < 64; ++bit) {
      if ((zeros[bit] | ones[bit]) == 0) continue;
      candidates.push_back({w, bit, zeros[bit], ones[bit]});
    }
  }
  std::array<uint64_t, kSample> alike{};  // by rule: the others that no bit tells from it
  alike.fill(~uint64_t{0});
  bool more = true;  // pairs to tell apart
  for (size_t n = 0; n < kSignatureBits && !candidates.empty(); ++n) {
    size_t best = 0;
    int most = 0;
    for (size_t c = 0; more && c < candidates.size(); ++c) {
      int apart = 0;
      for (uint64_t left = candidates[c].ones; left != 0; left &= left - 1) {
        apart +=
            std::popcount(alike[static_cast<size_t>(std::countr_zero(left))] & candidates[c].zeros);
      }
      if (apart <= most) continue;
      most = apart;
      best = c;
    }
    if (most == 0) {
      more = false;
      const auto asked = [](const BitOfRules& a, const BitOfRules& b) {
        return a.asked() < b.asked();
      };
      best = static_cast<size_t>(std::max_element(candidates.begin(), candidates.end(), asked) -
                                 candidates.begin());
    }
    const BitOfRules chosen = candidates[best];
    candidates[best] = candidates.back();
    candidates.pop_back();
    bits()[chosen.word] |= uint64_t{1} << chosen.bit;
    for (size_t i = 0; i < sample.size(); ++i) {
      if ((chosen.ones >> i & 1) != 0) alike[i] &= ~chosen.zeros;
      if ((chosen.zeros >> i & 1) != 0) alike[i] &= ~chosen.ones;
    }
  }
}

void TreeLeaf::sign_rule(size_t at) const {
  uint64_t value = 0;
  uint64_t mask = 0;
  for (size_t w = 0; w < words_; ++w) {
    const int width = std::popcount(bits()[w]);
    value = value << width | gather_bits_portable(values(at)[w], bits()[w]);
    mask = mask << width | gather_bits_portable(masks(at)[w], bits()[w]);
  }
  SignatureBlock& to = block(at / SignatureBlock::kRules);
  to.values[at % SignatureBlock::kRules] = static_cast<uint16_t>(value);
  to.masks[at % SignatureBlock::kRules] = static_cast<uint16_t>(mask);
}

void TreeLeaf::copy_signature(size_t at, const TreeLeaf& from, size_t from_at) const {
  constexpr size_t kRules = SignatureBlock::kRules;
  const SignatureBlock& source = from.block(from_at / kRules);
  SignatureBlock& to = block(at / kRules);
  to.values[at % kRules] = source.values[from_at % kRules];
  to.masks[at % kRules] = source.masks[from_at % kRules];
}

/// Writes what is by block: priorities, and signatures of no rule behind the last.
void TreeLeaf::end_blocks() const {
  constexpr size_t kRules = SignatureBlock::kRules;
  for (size_t at = 0; at < blocks(); ++at) first_priority(at) = priority_of(result(at * kRules));
  for (size_t at = count_; at < blocks() * kRules; ++at) {
    // No bits of a packet are this value.
    block(at / kRules).values[at % kRules] = 1;
    block(at / kRules).masks[at % kRules] = 0;
  }
}

void TreeLeaf::sign() const {
  choose_bits();
  for (size_t at = 0; at < count_; ++at) sign_rule(at);
  end_blocks();
}

void TreeLeaf::sign_as_with_added(const TreeLeaf& old, size_t added) const {
  std::copy_n(old.bits(), words_, bits());
  for (size_t at = 0; at < added; ++at) copy_signature(at, old, at);
  sign_rule(added);
  for (size_t at = added; at < old.count(); ++at) copy_signature(at + 1, old, at);
  end_blocks();
}

void TreeLeaf::sign_as_without(const TreeLeaf& old, size_t removed) const {
  std::copy_n(old.bits(), words_, bits());
  for (size_t at = 0; at < removed; ++at) copy_signature(at, old, at);
  for (size_t at = removed + 1; at < old.count(); ++at) copy_signature(at - 1, old, at);
  end_blocks();
}

}  // namespace headrace::match
