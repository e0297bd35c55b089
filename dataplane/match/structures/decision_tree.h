// SPDX-License-Identifier: Apache-2.0
// Rules of many masks, as access lists and firewalls have them: a few decision trees.
//
// A node branches on bits of one word of the packet, those that separate its rules best; a leaf
// holds a few rules, which are compared sixteen at a time. A rule that leaves the bits open on
// which a tree branches would be in very many leaves: it goes to the next tree, which branches on
// others. What fits no tree goes to a last one that is a single leaf. A look-up takes the trees one
// after the other and leaves out all that can't better what it has, by the greatest priority that
// each slot carries. So it depends on the rules alone, and no rule takes more than kMostCopies
// times its size in one tree.
//
// Words in which all rules ask for the same (eth_type, mostly) are compared once per packet. A rule
// that asks for another there, or for a word that no rule asked for, is refused: plan anew.
//
// Change in place. A leaf is copied with the change and published by one store; a leaf that has
// grown is cut into a node, for which its parent's slots are copied. The greatest priorities are
// raised before the rule can be found, and never lowered.
//
// Source: bits rather than ranges are cut on as in BitCuts (Liu et al., ToN 2019); several trees by
// which fields rules leave open as in EffiCuts (Vamanan et al., SIGCOMM 2010) and CutSplit (Li et
// al., INFOCOM 2018).
//
// Thread safety: as match/structures/classifier.h.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "match/structures/classifier_kind.h"
#include "match/structures/line_arena.h"
#include "match/structures/ranked_classifier.h"
#include "match/structures/same_words.h"
#include "match/structures/tree_cut.h"
#include "match/structures/tree_node.h"

namespace headrace::match {

class DecisionTree final : public RankedClassifier {
 public:
  /// Without rules, for some that match no words but `words`.
  DecisionTree(WordSet words, Defer defer);
  /// With rules, of which there is one at least. With `aside`, those that are too wide for the
  /// first trees are left out, and their positions are added to it.
  DecisionTree(std::span<const RuleRef> rules, Defer defer, std::vector<uint32_t>* aside = nullptr);
  ~DecisionTree() override;

  void rank(const FlowKey* burst, std::span<const uint8_t> active,
            Ranked* best) const noexcept override;
  /// Control: true if a tree that has rules takes this one, too.
  [[nodiscard]] bool takes(const Match& match) const;
  /// False for a rule that differs in words where the others agree.
  [[nodiscard]] bool insert(const Match& match, uint16_t priority, uint32_t index) override;
  bool erase(const Match& match, uint16_t priority) override;
  bool replace(const Match& match, uint16_t priority, uint32_t index) override;
  [[nodiscard]] std::unique_ptr<Classifier> clone() const override;
  /// True once there are twice the rules that the trees were cut for, or many fit none.
  [[nodiscard]] bool outgrown() const override;

  [[nodiscard]] size_t size() const override { return size_; }
  /// Trees that are not empty.
  [[nodiscard]] size_t masks() const override;
  [[nodiscard]] size_t memory_bytes() const override;
  /// Rules that fitted no tree.
  [[nodiscard]] size_t unfitted() const;

 private:
  /// Trees that branch; behind them stands the leaf of what fits none.
  static constexpr size_t kTrees = 8;

  /// A rule as leaves hold it.
  struct Rule {
    std::array<uint64_t, kFieldWords> values{};
    std::array<uint64_t, kFieldWords> masks{};
    Ranked result{0};
  };
  /// What callbacks of Defer may need when the classifier is gone.
  struct Shared {
    LineArena arena;
  };

  [[nodiscard]] bool in_form(const Match& match) const;
  [[nodiscard]] Rule rule_of(const Match& match, uint16_t priority, uint32_t index) const;
  [[nodiscard]] TreeLeaf leaf_in(const TreeSlot& slot) const {
    return {tree_child<uint64_t>(slot.next), words_.size()};
  }
  [[nodiscard]] Rule rule_in(const TreeLeaf& leaf, size_t at) const;
  [[nodiscard]] bool is_at(const Rule& rule, const TreeLeaf& leaf, size_t at) const;
  [[nodiscard]] std::optional<size_t> position_in(const Rule& rule, const TreeLeaf& leaf) const;

  template <typename Visit>
  void for_each_child(const TreeSlot& node, const Rule& rule, Visit&& visit) const;
  template <typename Visit>
  void for_each_leaf(TreeSlot& slot, const Rule& rule, Visit&& visit) const;
  [[nodiscard]] uint32_t copies_of(const TreeSlot& slot, const Rule& rule) const;
  [[nodiscard]] std::optional<size_t> tree_of(const Rule& rule) const;
  [[nodiscard]] size_t tree_for(const Rule& rule, size_t first) const;

  void add(const Rule& rule, size_t first_tree);
  void add_below(TreeSlot& slot, const Rule& rule);
  void remove(TreeSlot& root, const Rule& rule);
  [[nodiscard]] std::optional<TreeSlot> cut_leaf(const TreeSlot& slot, size_t tree);
  [[nodiscard]] std::optional<TreeSlot> cut_below(TreeSlot& slot, const Rule& rule, size_t tree);
  void cut_grown_leaves(const Rule& rule, size_t tree);

  [[nodiscard]] uint64_t make_leaf(const TreeRules& rules, std::span<const uint32_t> which);
  [[nodiscard]] TreeSlot make_tree(const TreeRules& rules, const TreeDraft& draft);
  [[nodiscard]] TreeSlot copy_of(const TreeSlot& slot, DecisionTree& to) const;
  [[nodiscard]] TreeLeaf new_leaf(size_t rules);
  void put_rule(const TreeLeaf& leaf, size_t at, const uint64_t* values, const uint64_t* masks,
                Ranked result) const;
  void retire(void* memory, size_t bytes);
  void flush_retired();
  [[nodiscard]] TreeSlot* roots() const { return roots_.load(std::memory_order_relaxed); }
  void build(std::span<const RuleRef> rules, std::vector<uint32_t>* aside);

  Defer defer_;
  std::vector<uint8_t> words_;  ///< positions of what leaves compare
  SameWords same_;
  TreeSearch* search_;  ///< the variant for this processor
  std::shared_ptr<Shared> shared_;
  std::atomic<TreeSlot*> roots_{nullptr};
  std::vector<std::pair<void*, size_t>> retired_;  ///< unlinked, readers may still see them
  size_t size_{0};
  size_t built_size_{0};
};

}  // namespace headrace::match
