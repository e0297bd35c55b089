// SPDX-License-Identifier: Apache-2.0
// How decision trees are made of many rules at once.
#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <utility>
#include <vector>

#include "match/structures/decision_tree.h"

namespace headrace::match {
namespace {

/// A rule that asks for fewer bits of an address leaves it open.
constexpr size_t kOpenBits = 12;
/// Bits of a field that a mask asks for.
size_t bits_asked(const FlowKey& mask, Field field) {
  const auto* const octets = reinterpret_cast<const uint8_t*>(&mask) + info(field).offset;
  size_t bits = 0;
  for (size_t i = 0; i < info(field).bytes; ++i) {
    bits += static_cast<size_t>(std::popcount(octets[i]));
  }
  return bits;
}

/// True if all rules have one mask and one value in the word.
bool same_in(std::span<const RuleRef> rules, size_t at) {
  const Match& first = *rules[0].match;
  return std::all_of(rules.begin(), rules.end(), [&](const RuleRef& rule) {
    return word(rule.match->mask, at) == word(first.mask, at) &&
           word(rule.match->value, at) == word(first.value, at);
  });
}

/// The two fields of an address's size whose bits the rules ask for most.
std::array<Field, 2> main_fields(std::span<const RuleRef> rules) {
  std::vector<std::pair<size_t, Field>> asked;
  for (size_t i = 0; i < kFieldCount; ++i) {
    const auto field = static_cast<Field>(i);
    if (info(field).bytes < 4) continue;
    size_t bits = 0;
    for (const RuleRef& rule : rules) bits += bits_asked(rule.match->mask, field);
    asked.emplace_back(bits, field);
  }
  std::partial_sort(asked.begin(), asked.begin() + 2, asked.end(), std::greater<>());
  return {asked[0].second, asked[1].second};
}

/// The rules by which of the two main fields they leave open: rules that leave the same open can
/// be cut on the same bits. Those that leave none open come first.
std::array<std::vector<TreeItem>, 4> by_open_fields(std::span<const RuleRef> rules) {
  std::array<std::vector<TreeItem>, 4> classes;
  const auto [one, other] = main_fields(rules);
  for (uint32_t i = 0; i < rules.size(); ++i) {
    const FlowKey& mask = rules[i].match->mask;
    const size_t open =
        (bits_asked(mask, one) < kOpenBits ? 1 : 0) + (bits_asked(mask, other) < kOpenBits ? 2 : 0);
    classes[open].push_back({i, kMostCopies});
  }
  return classes;
}

}  // namespace

DecisionTree::DecisionTree(std::span<const RuleRef> rules, Defer defer)
    : DecisionTree(WordSet{0}, std::move(defer)) {
  for (const RuleRef& rule : rules) used_ |= rule.match->words;
  for (size_t at = 0; at < kFieldWords; ++at) {
    if ((used_ >> at & 1) == 0) continue;
    if (same_in(rules, at)) {
      set_word(same_mask_, at, word(rules[0].match->mask, at));
      set_word(same_value_, at, word(rules[0].match->value, at));
    } else {
      words_.push_back(static_cast<uint8_t>(at));
    }
  }
  same_ = MaskedWords(same_mask_);
  build(rules);
}

/// A leaf of some rules, as a slot's `next`.
uint64_t DecisionTree::make_leaf(const TreeRules& rules, std::span<const uint32_t> which) {
  if (which.empty()) return 0;
  std::vector<uint32_t> order(which.begin(), which.end());
  std::stable_sort(order.begin(), order.end(), [&rules](uint32_t a, uint32_t b) {
    return priority_of(rules.result(a)) > priority_of(rules.result(b));
  });
  auto* const memory = static_cast<uint64_t*>(shared_->arena.take(leaf_bytes(order.size())));
  memory[0] = order.size();
  const TreeLeaf leaf(memory);
  for (size_t at = 0; at < order.size(); ++at) {
    leaf.result(at) = rules.result(order[at]);
    for (size_t w = 0; w < words_.size(); ++w) {
      leaf.values(w)[at] = rules.values(order[at])[w];
      leaf.masks(w)[at] = rules.masks(order[at])[w];
    }
  }
  return tree_next(memory, 0, priority_of(rules.result(order[0])));
}

TreeSlot DecisionTree::make_tree(const TreeRules& rules, const TreeDraft& draft,
                                 const std::vector<bool>& aside) {
  if (draft.children.empty()) {
    std::vector<uint32_t> kept;
    std::copy_if(draft.rules.begin(), draft.rules.end(), std::back_inserter(kept),
                 [&aside](uint32_t rule) { return !aside[rule]; });
    return {0, make_leaf(rules, kept)};
  }
  const size_t count = draft.children.size();
  auto* const slots = static_cast<TreeSlot*>(shared_->arena.take(count * sizeof(TreeSlot)));
  uint16_t priority = 0;
  for (size_t i = 0; i < count; ++i) {
    slots[i] = make_tree(rules, draft.children[i], aside);
    priority = std::max(priority, tree_priority(slots[i].next));
  }
  return {draft.cut.bits, tree_next(slots, words_[draft.cut.word], priority)};
}

void DecisionTree::build(std::span<const RuleRef> refs) {
  TreeRules rules(words_.size());
  for (const RuleRef& ref : refs) {
    const Rule rule = rule_of(*ref.match, ref.priority, ref.index);
    rules.add(rule.values.data(), rule.masks.data(), rule.result);
  }
  std::vector<bool> aside(rules.size());
  std::vector<TreeItem> others;
  size_t tree = 0;
  const auto make = [&](std::span<const TreeItem> items) {
    const TreeDraft draft = draft_tree(rules, items, aside);
    roots()[tree++] = make_tree(rules, draft, aside);
    for (const TreeItem& item : items) {
      if (aside[item.rule]) others.push_back(item);
      aside[item.rule] = false;
    }
  };
  for (const std::vector<TreeItem>& items : by_open_fields(refs)) {
    if (!items.empty()) make(items);
  }
  while (tree < kTrees && !others.empty()) make(std::exchange(others, {}));
  std::vector<uint32_t> unfitted;
  for (const TreeItem& item : others) unfitted.push_back(item.rule);
  roots()[kTrees].next = make_leaf(rules, unfitted);
  size_ = built_size_ = rules.size();
}

}  // namespace headrace::match
