// SPDX-License-Identifier: Apache-2.0
// Very many five-tuples that leave fields open: decision trees, and bit vectors for what trees put
// aside.
//
// A tree for rules that leave the same addresses open separates nearly all of them. What it puts
// aside, a few in a hundred, no few bits separate: trees of these have leaves of thousands of
// rules, and a look-up spends half of its time there. Few as they are, they fit bit vectors. The
// vectors come first: a branch of a tree that can't better their result is left out.
//
// Change in place: a rule goes to a tree that takes it, else to the vectors, else to a new tree.
//
// Thread safety: as match/structures/classifier.h.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "match/structures/bit_vectors.h"
#include "match/structures/decision_tree.h"
#include "match/structures/ranked_classifier.h"

namespace headrace::match {

class TreesAndVectors final : public RankedClassifier {
 public:
  /// Of rules that BitVectors::serves(). Null if there are none to put aside, or too many.
  [[nodiscard]] static std::unique_ptr<TreesAndVectors> make(std::span<const RuleRef> rules,
                                                             const Defer& defer);

  void rank(const FlowKey* burst, std::span<const uint8_t> active,
            Ranked* best) const noexcept override {
    vectors_->rank(burst, active, best);
    trees_->rank(burst, active, best);
  }
  [[nodiscard]] bool insert(const Match& match, uint16_t priority, uint32_t index) override;
  bool erase(const Match& match, uint16_t priority) override {
    return vectors_->erase(match, priority) || trees_->erase(match, priority);
  }
  bool replace(const Match& match, uint16_t priority, uint32_t index) override {
    return vectors_->replace(match, priority, index) || trees_->replace(match, priority, index);
  }
  [[nodiscard]] std::unique_ptr<Classifier> clone() const override;
  [[nodiscard]] bool outgrown() const override { return trees_->outgrown(); }

  [[nodiscard]] size_t size() const override { return trees_->size() + vectors_->size(); }
  [[nodiscard]] size_t masks() const override { return trees_->masks() + 1; }
  [[nodiscard]] size_t memory_bytes() const override {
    return trees_->memory_bytes() + vectors_->memory_bytes();
  }
  /// Rules in the vectors.
  [[nodiscard]] size_t put_aside() const { return vectors_->size(); }

 private:
  TreesAndVectors(WordSet used, std::unique_ptr<DecisionTree> trees,
                  std::unique_ptr<BitVectors> vectors)
      : trees_(std::move(trees)), vectors_(std::move(vectors)) {
    used_ = used;
  }

  std::unique_ptr<DecisionTree> trees_;
  std::unique_ptr<BitVectors> vectors_;
};

}  // namespace headrace::match
