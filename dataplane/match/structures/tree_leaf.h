// SPDX-License-Identifier: Apache-2.0
// The leaves of a decision tree: a few rules, or many that no cut separates.
//
// Rules are compared sixteen at a time by a signature: 16 of their bits at most, those of all words
// that separate the leaf's rules best, side by side. Signatures of sixteen rules, value and mask,
// are one cache line. A rule whose signature matches is then compared in full. So a leaf of a
// thousand rules is read in 64 lines and a few rules, where the rules themselves would be 500.
//
// A leaf in memory: the number of its rules; for each word the bits that go into signatures; the
// greatest priority of every sixteen rules; from the next cache line on the signatures; then the
// rules by descending priority, each its result and for each word value and mask.
//
// Thread safety: a leaf that workers can see never changes but for its results, each by one store.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "match/structures/block.h"
#include "match/structures/hash_table.h"

namespace headrace::match {

/// Bits of a rule that make its signature, at most.
inline constexpr size_t kSignatureBits = 16;

/// The bits of `from` that `bits` names, side by side: what the instruction pext does.
inline uint64_t gather_bits_portable(uint64_t from, uint64_t bits) {
  uint64_t gathered = 0;
  for (unsigned at = 0; bits != 0; bits &= bits - 1, ++at) {
    gathered |= (from >> std::countr_zero(bits) & 1) << at;
  }
  return gathered;
}

/// Signatures of sixteen rules. Where there is no rule, no packet's signature matches.
struct alignas(kCacheLine) SignatureBlock {
  static constexpr size_t kRules = 16;

  uint16_t values[kRules];
  uint16_t masks[kRules];
};
static_assert(sizeof(SignatureBlock) == kCacheLine);

/// A leaf's parts, of a tree whose rules have `words` words.
class TreeLeaf {
 public:
  TreeLeaf(uint64_t* leaf, size_t words)
      : memory_(leaf),
        words_(words),
        count_(static_cast<size_t>(leaf[0])),
        blocks_(reinterpret_cast<SignatureBlock*>(leaf + line_words(count_, words))) {}

  static size_t bytes(size_t count, size_t words) {
    return 8 * line_words(count, words) + blocks_of(count) * sizeof(SignatureBlock) +
           8 * count * row_words(words);
  }

  [[nodiscard]] uint64_t* memory() const { return memory_; }
  [[nodiscard]] size_t bytes() const { return bytes(count_, words_); }
  [[nodiscard]] size_t count() const { return count_; }
  [[nodiscard]] size_t blocks() const { return blocks_of(count_); }
  /// By word: the bits that go into signatures.
  [[nodiscard]] uint64_t* bits() const { return memory_ + 1; }
  /// By block: a priority that none of its rules exceeds.
  [[nodiscard]] uint16_t& first_priority(size_t block) const {
    return reinterpret_cast<uint16_t*>(memory_ + 1 + words_)[block];
  }
  [[nodiscard]] SignatureBlock& block(size_t at) const { return blocks_[at]; }
  /// A rule: result, then by word all values, then all masks.
  [[nodiscard]] uint64_t* rule(size_t at) const {
    return reinterpret_cast<uint64_t*>(blocks_ + blocks()) + at * row_words(words_);
  }
  [[nodiscard]] Ranked& result(size_t at) const { return rule(at)[0]; }
  [[nodiscard]] uint64_t* values(size_t at) const { return rule(at) + 1; }
  [[nodiscard]] uint64_t* masks(size_t at) const { return rule(at) + 1 + words_; }

  /// Chooses the bits for these rules and writes signatures and priorities anew.
  void sign() const;
  /// Takes over the bits of a leaf that had all rules of this but the one at `added`, and the
  /// signatures.
  void sign_as_with_added(const TreeLeaf& old, size_t added) const;
  /// The same where `old` had one rule more, at `removed`.
  void sign_as_without(const TreeLeaf& old, size_t removed) const;

 private:
  static constexpr size_t row_words(size_t words) { return 1 + 2 * words; }
  static constexpr size_t blocks_of(size_t count) {
    return (count + SignatureBlock::kRules - 1) / SignatureBlock::kRules;
  }
  /// 64-bit words before the signatures.
  static constexpr size_t line_words(size_t count, size_t words) {
    constexpr size_t kLineWords = kCacheLine / 8;
    const size_t used = 1 + words + (2 * blocks_of(count) + 7) / 8;
    return (used + kLineWords - 1) / kLineWords * kLineWords;
  }

  void choose_bits() const;
  void sign_rule(size_t at) const;
  void copy_signature(size_t at, const TreeLeaf& from, size_t from_at) const;
  void end_blocks() const;

  uint64_t* memory_;
  size_t words_;
  size_t count_;
  SignatureBlock* blocks_;
};

}  // namespace headrace::match
