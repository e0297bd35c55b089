// SPDX-License-Identifier: Apache-2.0
#include "match/structures/trees_and_vectors.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

namespace headrace::match {

std::unique_ptr<TreesAndVectors> TreesAndVectors::make(std::span<const RuleRef> rules,
                                                       const Defer& defer) {
  WordSet used = 0;
  for (const RuleRef& rule : rules) used |= rule.match->words;
  std::vector<uint32_t> positions;
  auto trees = std::make_unique<DecisionTree>(rules, defer, &positions);
  if (positions.empty()) return nullptr;
  std::vector<RuleRef> aside;
  for (const uint32_t position : positions) aside.push_back(rules[position]);
  std::unique_ptr<BitVectors> vectors = BitVectors::make(aside, defer);
  if (vectors == nullptr) return nullptr;
  return std::unique_ptr<TreesAndVectors>(
      new TreesAndVectors(used, std::move(trees), std::move(vectors)));
}

bool TreesAndVectors::insert(const Match& match, uint16_t priority, uint32_t index) {
  if ((match.words & ~used_) != 0) return false;
  if (!trees_->takes(match) && vectors_->insert(match, priority, index)) return true;
  return trees_->insert(match, priority, index);
}

std::unique_ptr<Classifier> TreesAndVectors::clone() const {
  std::unique_ptr<Classifier> trees = trees_->clone();
  std::unique_ptr<BitVectors> vectors = vectors_->copy();
  if (vectors == nullptr) return nullptr;
  // What DecisionTree::clone() makes is one.
  std::unique_ptr<DecisionTree> same(static_cast<DecisionTree*>(trees.release()));
  std::unique_ptr<TreesAndVectors> made(
      new TreesAndVectors(used_, std::move(same), std::move(vectors)));
  made->set_default(default_index());
  return made;
}

// --- kind ---------------------------------------------------------------------------------------

namespace {

/// Fewer rules are planned in several ways, and few of them are put aside.
constexpr size_t kManyRules = 32768;
/// Of a hundred rules and ranges, how many leave an address open at least.
constexpr size_t kOpenPercent = 45;

std::optional<Fit> plan_both(std::span<const RuleRef> rules) {
  if (rules.size() < kManyRules || !BitVectors::serves(rules)) return std::nullopt;
  const BitVectors::Estimate estimate = BitVectors::estimate(rules);
  if (100 * estimate.open < kOpenPercent * estimate.groups) return std::nullopt;
  return Fit{fmt::format("{} of very many rules and ranges leave an address open: decision trees, "
                         "and bit vectors for what they put aside",
                         estimate.open),
             [rules](const Defer& defer) { return TreesAndVectors::make(rules, defer); }};
}

}  // namespace

namespace kinds {
extern const ClassifierKind trees_and_vectors;
const ClassifierKind trees_and_vectors{"trees-and-vectors", plan_both};
}  // namespace kinds

}  // namespace headrace::match
