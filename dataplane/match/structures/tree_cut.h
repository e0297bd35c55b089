// SPDX-License-Identifier: Apache-2.0
// How a decision tree is cut: on which bits a node branches, and which rules are too wide for it.
//
// A rule that leaves bits open on which a node branches is in several of its children. No rule may
// be in more than kMostCopies leaves of a tree: one that would be is put aside, for the next tree.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "match/structures/hash_table.h"
#include "match/structures/tree_leaf.h"

namespace headrace::match {

/// Rules as a tree compares them: only the words that differ between rules, side by side.
class TreeRules {
 public:
  explicit TreeRules(size_t words) : words_(words) {}

  void add(const uint64_t* values, const uint64_t* masks, Ranked result) {
    results_.push_back(result);
    bits_.insert(bits_.end(), values, values + words_);
    bits_.insert(bits_.end(), masks, masks + words_);
  }
  [[nodiscard]] size_t size() const { return results_.size(); }
  [[nodiscard]] size_t words() const { return words_; }
  [[nodiscard]] Ranked result(size_t rule) const { return results_[rule]; }
  [[nodiscard]] const uint64_t* values(size_t rule) const { return &bits_[rule * 2 * words_]; }
  [[nodiscard]] const uint64_t* masks(size_t rule) const { return values(rule) + words_; }

 private:
  size_t words_;
  std::vector<Ranked> results_;
  std::vector<uint64_t> bits_;
};

/// A leaf of more rules is cut, if that makes it smaller.
inline constexpr size_t kLeafRules = SignatureBlock::kRules;
/// Leaves of one tree that a rule may be in, unless all rules are tried in one tree.
inline constexpr uint32_t kMostCopies = 32;

/// A rule in a node, and in how many leaves below it may be.
struct TreeItem {
  uint32_t rule;
  uint32_t copies;
};

/// Bits of one word.
struct TreeCut {
  size_t word{0};
  uint64_t bits{0};    ///< 0: no cut is worth it
  uint32_t copies{0};  ///< a rule that would be in more children goes aside
};

/// The bits that separate these rules best.
[[nodiscard]] TreeCut choose_cut(const TreeRules& rules, std::span<const TreeItem> items);

/// A tree that is planned but not made.
struct TreeDraft {
  TreeCut cut{};
  std::vector<TreeDraft> children{};  ///< none: a leaf
  std::vector<uint32_t> rules{};      ///< of a leaf, by descending priority
  uint16_t priority{0};               ///< the greatest of its rules
};

/// Plans a tree of `items`. Rules put aside are marked in `aside`. Nothing if leaves would hold
/// more than `most` rules together.
[[nodiscard]] std::optional<TreeDraft> draft_tree(const TreeRules& rules,
                                                  std::span<const TreeItem> items,
                                                  std::vector<bool>& aside, size_t most);

}  // namespace headrace::match
