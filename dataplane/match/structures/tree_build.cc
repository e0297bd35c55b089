// SPDX-License-Identifier: Apache-2.0
// How decision trees are made of many rules at once.
//
// Rules are parted by which of their two addresses they leave open, and each part gets a tree, cut
// on what its rules ask for; what is put aside gets further ones. Every tree costs a look-up some
// levels, so where rules leave little open, one tree for all of them is better, in spite of the
// copies. Which rules leave an address open is a matter of degree. So forests are planned in
// several ways, and the one is made in which packets of the rules meet the least.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "match/structures/decision_tree.h"

namespace headrace::match {
namespace {

/// A way to part rules, tried for so many of them.
struct Parting {
  size_t least_rules;
  size_t most_rules;
  size_t open_bits;  ///< a rule that asks for fewer bits of an address leaves it open; 0: no parts
  uint32_t copies;   ///< of a rule in one tree, at most
  size_t stored;     ///< rules in all leaves together, at most, for each rule in the mean
};
/// Bounds of numbers of rules are those beyond which a way was never the best, so that its planning
/// is time lost.
constexpr Parting kPartings[] = {{0, 32768, 12, kMostCopies, kMostCopies},
                                 {4096, SIZE_MAX, 20, kMostCopies, kMostCopies},
                                 {0, 16384, 0, 128, 8}};

/// Trees that are planned but not made, and the rules that fit none.
struct Forest {
  std::vector<TreeDraft> trees{};
  std::vector<TreeItem> unfitted{};
};

/// Bits of a field that a mask asks for.
size_t bits_asked(const FlowKey& mask, Field field) {
  const auto* const octets = reinterpret_cast<const uint8_t*>(&mask) + info(field).offset;
  size_t bits = 0;
  for (size_t i = 0; i < info(field).bytes; ++i) {
    bits += static_cast<size_t>(std::popcount(octets[i]));
  }
  return bits;
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
std::array<std::vector<TreeItem>, 4> parts_of(std::span<const RuleRef> rules,
                                              const Parting& parting) {
  std::array<std::vector<TreeItem>, 4> parts;
  const auto [one, other] = main_fields(rules);
  for (uint32_t i = 0; i < rules.size(); ++i) {
    const FlowKey& mask = rules[i].match->mask;
    const size_t open = (bits_asked(mask, one) < parting.open_bits ? 1 : 0) +
                        (bits_asked(mask, other) < parting.open_bits ? 2 : 0);
    parts[open].push_back({i, parting.copies});
  }
  return parts;
}

/// Plans `most_trees` at most, or one for each part. Nothing if rules have more copies than the
/// parting allows.
std::optional<Forest> plan_forest(const TreeRules& rules, std::span<const RuleRef> refs,
                                  const Parting& parting, size_t most_trees) {
  Forest forest;
  std::vector<bool> aside(rules.size());
  const size_t most = parting.stored * rules.size();
  const auto add = [&](std::span<const TreeItem> items) {
    std::optional<TreeDraft> draft = draft_tree(rules, items, aside, most);
    if (!draft.has_value()) return false;
    forest.trees.push_back(std::move(*draft));
    for (const TreeItem& item : items) {
      if (aside[item.rule]) forest.unfitted.push_back(item);
      aside[item.rule] = false;
    }
    return true;
  };
  for (const std::vector<TreeItem>& items : parts_of(refs, parting)) {
    if (!items.empty() && !add(items)) return std::nullopt;
  }
  while (forest.trees.size() < most_trees && !forest.unfitted.empty()) {
    if (!add(std::exchange(forest.unfitted, {}))) return std::nullopt;
  }
  return forest;
}

/// What a look-up costs in a forest that is planned, in the mean over packets of the rules; in
/// cycles as they were measured of rules that are in caches. Only the order of costs matters.
class LookupCost {
 public:
  LookupCost(const TreeRules& rules, const Forest& forest) : rules_(rules), forest_(forest) {}

  [[nodiscard]] double mean() const {
    std::minstd_rand random(1);
    const size_t step = (rules_.size() + kPackets - 1) / kPackets;
    std::vector<uint64_t> packet(rules_.words());
    double sum = 0;
    size_t packets = 0;
    for (size_t rule = 0; rule < rules_.size(); rule += step, ++packets) {
      for (size_t w = 0; w < packet.size(); ++w) {
        const uint64_t noise = uint64_t{random()} << 33 ^ uint64_t { random() } << 11 ^ random();
        packet[w] = rules_.values(rule)[w] | (noise & ~rules_.masks(rule)[w]);
      }
      sum += of_packet(packet);
    }
    return sum / static_cast<double>(packets);
  }

 private:
  static constexpr size_t kPackets = 4096;
  static constexpr double kTree = 6;
  static constexpr double kLevel = 12;
  static constexpr double kLeaf = 16;
  static constexpr double kBlock = 4;

  [[nodiscard]] double of_packet(std::span<const uint64_t> packet) const {
    double cost = 0;
    Ranked best = 0;
    for (const TreeDraft& tree : forest_.trees) {
      cost += kTree;
      const TreeDraft* at = &tree;
      while (!at->children.empty() && better_than(at->priority, best)) {
        cost += kLevel;
        at = &at->children[gather_bits_portable(packet[at->cut.word], at->cut.bits)];
      }
      if (!at->rules.empty() && better_than(at->priority, best)) {
        cost += kLeaf + scan(at->rules, packet, best);
      }
    }
    return cost + kBlock * static_cast<double>(forest_.unfitted.size()) / SignatureBlock::kRules;
  }

  double scan(std::span<const uint32_t> leaf, std::span<const uint64_t> packet,
              Ranked& best) const {
    double cost = 0;
    for (size_t i = 0; i < leaf.size(); ++i) {
      const Ranked result = rules_.result(leaf[i]);
      if (i % SignatureBlock::kRules == 0) {
        if (!better_than(priority_of(result), best)) return cost;
        cost += kBlock;
      }
      bool hit = true;
      for (size_t w = 0; w < packet.size(); ++w) {
        hit = hit && (packet[w] & rules_.masks(leaf[i])[w]) == rules_.values(leaf[i])[w];
      }
      if (!hit) continue;
      best = std::max(best, result);
      return cost;
    }
    return cost;
  }

  const TreeRules& rules_;
  const Forest& forest_;
};

}  // namespace

DecisionTree::DecisionTree(std::span<const RuleRef> rules, Defer defer,
                           std::vector<uint32_t>* aside)
    : DecisionTree(WordSet{0}, std::move(defer)) {
  for (const RuleRef& rule : rules) used_ |= rule.match->words;
  same_ = SameWords(rules, used_);
  for (size_t at = 0; at < kFieldWords; ++at) {
    if (((used_ & ~same_.set()) >> at & 1) != 0) words_.push_back(static_cast<uint8_t>(at));
  }
  build(rules, aside);
}

/// A leaf for so many rules, none of which is written.
TreeLeaf DecisionTree::new_leaf(size_t rules) {
  auto* const memory =
      static_cast<uint64_t*>(shared_->arena.take(TreeLeaf::bytes(rules, words_.size())));
  memory[0] = rules;
  return {memory, words_.size()};
}

void DecisionTree::put_rule(const TreeLeaf& leaf, size_t at, const uint64_t* values,
                            const uint64_t* masks, Ranked result) const {
  leaf.result(at) = result;
  std::copy_n(values, words_.size(), leaf.values(at));
  std::copy_n(masks, words_.size(), leaf.masks(at));
}

/// A leaf of some rules, which are in order of priority, as a slot's `next`.
uint64_t DecisionTree::make_leaf(const TreeRules& rules, std::span<const uint32_t> which) {
  if (which.empty()) return 0;
  const TreeLeaf leaf = new_leaf(which.size());
  for (size_t at = 0; at < which.size(); ++at) {
    const uint32_t rule = which[at];
    put_rule(leaf, at, rules.values(rule), rules.masks(rule), rules.result(rule));
  }
  leaf.sign();
  return tree_next(leaf.memory(), 0, priority_of(leaf.result(0)));
}

TreeSlot DecisionTree::make_tree(const TreeRules& rules, const TreeDraft& draft) {
  if (draft.children.empty()) return {0, make_leaf(rules, draft.rules)};
  const size_t count = draft.children.size();
  auto* const slots = static_cast<TreeSlot*>(shared_->arena.take(count * sizeof(TreeSlot)));
  for (size_t i = 0; i < count; ++i) slots[i] = make_tree(rules, draft.children[i]);
  return {draft.cut.bits, tree_next(slots, words_[draft.cut.word], draft.priority)};
}

void DecisionTree::build(std::span<const RuleRef> refs, std::vector<uint32_t>* aside) {
  TreeRules rules(words_.size());
  for (const RuleRef& ref : refs) {
    const Rule rule = rule_of(*ref.match, ref.priority, ref.index);
    rules.add(rule.values.data(), rule.masks.data(), rule.result);
  }
  const size_t most_trees = aside == nullptr ? kTrees : 0;  // beside those of the parts
  Forest best;
  double least = std::numeric_limits<double>::infinity();
  for (const Parting& parting : kPartings) {
    if (rules.size() < parting.least_rules || rules.size() > parting.most_rules) continue;
    std::optional<Forest> forest = plan_forest(rules, refs, parting, most_trees);
    if (!forest.has_value()) continue;
    const double cost = LookupCost(rules, *forest).mean();
    if (cost >= least) continue;
    least = cost;
    best = std::move(*forest);
  }
  for (size_t tree = 0; tree < best.trees.size(); ++tree) {
    roots()[tree] = make_tree(rules, best.trees[tree]);
  }
  std::vector<uint32_t> unfitted;
  for (const TreeItem& item : best.unfitted) unfitted.push_back(item.rule);
  std::stable_sort(unfitted.begin(), unfitted.end(), [&rules](uint32_t a, uint32_t b) {
    return priority_of(rules.result(a)) > priority_of(rules.result(b));
  });
  size_ = built_size_ = rules.size();
  if (aside != nullptr) {
    aside->insert(aside->end(), unfitted.begin(), unfitted.end());
    size_ = built_size_ -= unfitted.size();
    return;
  }
  roots()[kTrees].next = make_leaf(rules, unfitted);
}

}  // namespace headrace::match
