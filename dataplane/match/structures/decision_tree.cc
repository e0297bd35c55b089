// SPDX-License-Identifier: Apache-2.0
#include "match/structures/decision_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "match/fields/simd.h"

namespace headrace::match {
namespace {

/// Memory is handed to Defer in batches: a grace period is not free.
constexpr size_t kRetiredBatch = 128;
/// A leaf is cut when it has grown to so many rules, or to a power of two above.
constexpr size_t kGrownLeaf = 16;
/// Copies that are no reason to look for another tree.
constexpr uint32_t kFewCopies = 4;
/// So many rules that fit no tree, at least, are a reason to plan anew.
constexpr size_t kUnfitted = 64;
/// From this many masks, trees beat a tuple space.
constexpr size_t kManyMasks = 12;
/// Fewer rules than these are left to it: most packets hit one of its first tuples.
constexpr size_t kManyRules = 128;
TreeSlot* slots_of(const TreeSlot& node) {
  return tree_child<TreeSlot>(node.next);
}

size_t slots_behind(const TreeSlot& node) {
  return size_t{1} << std::popcount(node.bits);
}

bool empty(const TreeSlot& slot) {
  return tree_child<uint64_t>(slot.next) == nullptr;
}

TreeSearch* search_for(Simd level) {
  switch (level) {
    case Simd::avx512:  // takes as long with wider registers
    case Simd::avx2:
      return search_trees_avx2;
    case Simd::portable:
      return search_trees;
  }
  return search_trees;
}

void publish(TreeSlot& slot, uint64_t next) {
  __atomic_store_n(&slot.next, next, __ATOMIC_RELEASE);
}

}  // namespace

DecisionTree::DecisionTree(WordSet words, Defer defer)
    : defer_(std::move(defer)), search_(search_for(simd())), shared_(std::make_shared<Shared>()) {
  used_ = words;
  for (size_t at = 0; at < kFieldWords; ++at) {
    if ((words >> at & 1) != 0) words_.push_back(static_cast<uint8_t>(at));
  }
  auto* const roots = static_cast<TreeSlot*>(shared_->arena.take((kTrees + 1) * sizeof(TreeSlot)));
  std::fill_n(roots, kTrees + 1, TreeSlot{});
  roots_.store(roots, std::memory_order_release);
}

DecisionTree::~DecisionTree() = default;

// --- look-up -----------------------------------------------------------------------------------

void DecisionTree::rank(const FlowKey* burst, std::span<const uint8_t> active,
                        Ranked* best) const noexcept {
  Ranked ranked[kBurst];
  uint8_t slots[kBurst]{};
  uint8_t positions[kBurst];
  const size_t left = same_.select(burst, active, slots, positions);
  for (size_t k = 0; k < left; ++k) ranked[k] = best[positions[k]];
  const TreeView view{roots_.load(std::memory_order_acquire), kTrees + 1, words_};
  search_(view, burst, slots, left, ranked);
  for (size_t k = 0; k < left; ++k) best[positions[k]] = ranked[k];
}

// --- rules and where they are ------------------------------------------------------------------

bool DecisionTree::in_form(const Match& match) const {
  return (match.words & ~used_) == 0 && same_.holds(match);
}

DecisionTree::Rule DecisionTree::rule_of(const Match& match, uint16_t priority,
                                         uint32_t index) const {
  Rule rule;
  for (size_t w = 0; w < words_.size(); ++w) {
    rule.values[w] = word(match.value, words_[w]);
    rule.masks[w] = word(match.mask, words_[w]);
  }
  rule.result = ranked(priority, index);
  return rule;
}

DecisionTree::Rule DecisionTree::rule_in(const TreeLeaf& leaf, size_t at) const {
  Rule rule;
  std::copy_n(leaf.values(at), words_.size(), rule.values.begin());
  std::copy_n(leaf.masks(at), words_.size(), rule.masks.begin());
  rule.result = leaf.result(at);
  return rule;
}

/// True if the leaf has this rule there: the same match and priority.
bool DecisionTree::is_at(const Rule& rule, const TreeLeaf& leaf, size_t at) const {
  if (priority_of(leaf.result(at)) != priority_of(rule.result)) return false;
  return std::equal(leaf.values(at), leaf.masks(at), rule.values.begin()) &&
         std::equal(leaf.masks(at), leaf.masks(at) + words_.size(), rule.masks.begin());
}

std::optional<size_t> DecisionTree::position_in(const Rule& rule, const TreeLeaf& leaf) const {
  for (size_t at = 0; at < leaf.count(); ++at) {
    if (is_at(rule, leaf, at)) return at;
  }
  return std::nullopt;
}

/// Calls visit(slot) for the slots of a node that packets of the rule may come to; it may return
/// true to end.
template <typename Visit>
void DecisionTree::for_each_child(const TreeSlot& node, const Rule& rule, Visit&& visit) const {
  const size_t position = node.next & TreeSlot::kWord;
  const auto w =
      static_cast<size_t>(std::find(words_.begin(), words_.end(), position) - words_.begin());
  const uint64_t first = gather_bits_portable(rule.values[w], node.bits);
  const uint64_t open = gather_bits_portable(~rule.masks[w], node.bits);
  for (uint64_t bits = open;; bits = (bits - 1) & open) {
    if (visit(slots_of(node)[first | bits]) || bits == 0) return;
  }
}

/// Calls visit(slot) for the slots of all leaves that packets of the rule may come to.
template <typename Visit>
void DecisionTree::for_each_leaf(TreeSlot& slot, const Rule& rule, Visit&& visit) const {
  if (slot.leaf()) return visit(slot);
  for_each_child(slot, rule, [&](TreeSlot& child) {
    for_each_leaf(child, rule, visit);
    return false;
  });
}

/// Leaves that the rule is in or would be; a little more than kMostCopies if there are more.
uint32_t DecisionTree::copies_of(const TreeSlot& slot, const Rule& rule) const {
  if (slot.leaf()) return 1;
  uint32_t copies = 0;
  for_each_child(slot, rule, [&](const TreeSlot& child) {
    copies += copies_of(child, rule);
    return copies > kMostCopies;
  });
  return copies;
}

std::optional<size_t> DecisionTree::tree_of(const Rule& rule) const {
  for (size_t tree = 0; tree <= kTrees; ++tree) {
    const TreeSlot* slot = &roots()[tree];
    while (!slot->leaf()) {
      for_each_child(*slot, rule, [&slot](const TreeSlot& child) {
        slot = &child;
        return true;
      });
    }
    if (!empty(*slot) && position_in(rule, leaf_in(*slot)).has_value()) return tree;
  }
  return std::nullopt;
}

bool DecisionTree::takes(const Match& match) const {
  if (!in_form(match)) return false;
  const Rule rule = rule_of(match, 0, 0);
  return std::any_of(roots(), roots() + kTrees, [&](const TreeSlot& root) {
    return !empty(root) && copies_of(root, rule) <= kMostCopies;
  });
}

/// The tree that a rule goes to, not before `first`: one of few copies, else one that takes it at
/// all; an empty one only then.
size_t DecisionTree::tree_for(const Rule& rule, size_t first) const {
  size_t other = kTrees;
  uint32_t least = kMostCopies + 1;
  for (size_t tree = first; tree < kTrees; ++tree) {
    const TreeSlot& root = roots()[tree];
    const bool unused = root.leaf() && empty(root);
    if (unused && other != kTrees) break;
    const uint32_t copies = copies_of(root, rule);
    if (copies <= kFewCopies) return tree;
    if (copies >= least) continue;
    least = copies;
    other = tree;
  }
  return other;
}

// --- change ------------------------------------------------------------------------------------

void DecisionTree::retire(void* memory, size_t bytes) {
  if (memory == nullptr) return;
  retired_.emplace_back(memory, bytes);
  if (retired_.size() >= kRetiredBatch) flush_retired();
}

void DecisionTree::flush_retired() {
  defer_([shared = shared_, retired = std::exchange(retired_, {})] {
    for (const auto& [memory, bytes] : retired) shared->arena.give_back(memory, bytes);
  });
}

/// Puts the rule into every leaf below that its packets may come to.
void DecisionTree::add_below(TreeSlot& slot, const Rule& rule) {
  const uint16_t priority = std::max(tree_priority(slot.next), priority_of(rule.result));
  if (!slot.leaf()) {
    const size_t position = slot.next & TreeSlot::kWord;
    publish(slot, tree_next(slots_of(slot), position, priority));
    for_each_child(slot, rule, [&](TreeSlot& child) {
      add_below(child, rule);
      return false;
    });
    return;
  }
  TreeRules added(words_.size());
  added.add(rule.values.data(), rule.masks.data(), rule.result);
  if (empty(slot)) return publish(slot, make_leaf(added, std::array{uint32_t{0}}));
  const TreeLeaf old = leaf_in(slot);
  size_t before = 0;
  while (before < old.count() && priority_of(old.result(before)) >= priority_of(rule.result)) {
    ++before;
  }
  const TreeLeaf made = new_leaf(old.count() + 1);
  std::copy(old.rule(0), old.rule(before), made.rule(0));
  put_rule(made, before, rule.values.data(), rule.masks.data(), rule.result);
  std::copy(old.rule(before), old.rule(old.count()), made.rule(before + 1));
  // The bits of signatures are chosen anew when there are twice the rules.
  if (std::has_single_bit(made.count())) {
    made.sign();
  } else {
    made.sign_as_with_added(old, before);
  }
  publish(slot, tree_next(made.memory(), 0, priority));
  retire(old.memory(), old.bytes());
}

/// Takes the rule out of all leaves of a tree that has it.
void DecisionTree::remove(TreeSlot& root, const Rule& rule) {
  for_each_leaf(root, rule, [&](TreeSlot& slot) {
    if (empty(slot)) return;
    const TreeLeaf old = leaf_in(slot);
    const std::optional<size_t> gone = position_in(rule, old);
    if (!gone.has_value()) return;
    uint64_t next = 0;
    if (old.count() > 1) {
      const TreeLeaf made = new_leaf(old.count() - 1);
      std::copy(old.rule(0), old.rule(*gone), made.rule(0));
      std::copy(old.rule(*gone + 1), old.rule(old.count()), made.rule(*gone));
      made.sign_as_without(old, *gone);
      next = tree_next(made.memory(), 0, priority_of(made.result(0)));
    }
    publish(slot, next);
    retire(old.memory(), old.bytes());
  });
}

/// The leaf's rules as a tree of their own; nothing if no cut makes them fewer. Rules that are too
/// wide for it go to a later tree first, so that they are found all the time.
std::optional<TreeSlot> DecisionTree::cut_leaf(const TreeSlot& slot, size_t tree) {
  for (;;) {
    if (empty(slot)) return std::nullopt;
    const TreeLeaf leaf = leaf_in(slot);
    TreeRules rules(words_.size());
    std::vector<TreeItem> items;
    for (uint32_t at = 0; at < leaf.count(); ++at) {
      const Rule rule = rule_in(leaf, at);
      rules.add(rule.values.data(), rule.masks.data(), rule.result);
      const uint32_t copies = copies_of(roots()[tree], rule);
      items.push_back({at, std::max<uint32_t>(kMostCopies / copies, 1)});
    }
    std::vector<bool> aside(rules.size());
    const std::optional<TreeDraft> draft = draft_tree(rules, items, aside, SIZE_MAX);
    if (draft->children.empty()) return std::nullopt;
    std::vector<Rule> others;
    for (size_t at = 0; at < aside.size(); ++at) {
      if (aside[at]) others.push_back(rule_in(leaf, at));
    }
    if (others.empty()) return make_tree(rules, *draft);
    for (const Rule& rule : others) {
      add(rule, tree + 1);
      remove(roots()[tree], rule);
    }
  }
}

/// Cuts the leaves of the rule that have grown. Returns what is to stand in the slot's place.
std::optional<TreeSlot> DecisionTree::cut_below(TreeSlot& slot, const Rule& rule, size_t tree) {
  if (slot.leaf()) {
    if (empty(slot)) return std::nullopt;
    const size_t count = leaf_in(slot).count();
    if (count < kGrownLeaf || !std::has_single_bit(count)) return std::nullopt;
    return cut_leaf(slot, tree);
  }
  std::vector<std::pair<size_t, TreeSlot>> cut;
  for_each_child(slot, rule, [&](TreeSlot& child) {
    const std::optional<TreeSlot> made = cut_below(child, rule, tree);
    if (made.has_value()) cut.emplace_back(static_cast<size_t>(&child - slots_of(slot)), *made);
    return false;
  });
  if (cut.empty()) return std::nullopt;
  TreeSlot* const old = slots_of(slot);
  const size_t bytes = slots_behind(slot) * sizeof(TreeSlot);
  auto* const slots = static_cast<TreeSlot*>(shared_->arena.take(bytes));
  std::memcpy(slots, old, bytes);
  for (const auto& [at, made] : cut) {
    if (!empty(old[at])) retire(leaf_in(old[at]).memory(), leaf_in(old[at]).bytes());
    slots[at] = made;
  }
  publish(slot, tree_next(slots, slot.next & TreeSlot::kWord, tree_priority(slot.next)));
  retire(old, bytes);
  return std::nullopt;
}

void DecisionTree::cut_grown_leaves(const Rule& rule, size_t tree) {
  const std::optional<TreeSlot> made = cut_below(roots()[tree], rule, tree);
  if (!made.has_value()) return;
  constexpr size_t kBytes = (kTrees + 1) * sizeof(TreeSlot);
  TreeSlot* const old = roots();
  auto* const slots = static_cast<TreeSlot*>(shared_->arena.take(kBytes));
  std::memcpy(slots, old, kBytes);
  slots[tree] = *made;
  roots_.store(slots, std::memory_order_release);
  if (!empty(old[tree])) retire(leaf_in(old[tree]).memory(), leaf_in(old[tree]).bytes());
  retire(old, kBytes);
}

void DecisionTree::add(const Rule& rule, size_t first_tree) {
  const size_t tree = tree_for(rule, first_tree);
  add_below(roots()[tree], rule);
  if (tree < kTrees) cut_grown_leaves(rule, tree);
}

bool DecisionTree::insert(const Match& match, uint16_t priority, uint32_t index) {
  if (!in_form(match) || index >= kIndexLimit) return false;
  add(rule_of(match, priority, index), 0);
  ++size_;
  return true;
}

bool DecisionTree::erase(const Match& match, uint16_t priority) {
  if (!in_form(match)) return false;
  const Rule rule = rule_of(match, priority, 0);
  const std::optional<size_t> tree = tree_of(rule);
  if (!tree.has_value()) return false;
  remove(roots()[*tree], rule);
  --size_;
  return true;
}

bool DecisionTree::replace(const Match& match, uint16_t priority, uint32_t index) {
  if (!in_form(match) || index >= kIndexLimit) return false;
  const Rule rule = rule_of(match, priority, index);
  const std::optional<size_t> tree = tree_of(rule);
  if (!tree.has_value()) return false;
  for_each_leaf(roots()[*tree], rule, [&](TreeSlot& slot) {
    if (empty(slot)) return;
    const std::optional<size_t> at = position_in(rule, leaf_in(slot));
    if (at.has_value()) {
      __atomic_store_n(&leaf_in(slot).result(*at), rule.result, __ATOMIC_RELEASE);
    }
  });
  return true;
}

/// Copies what is behind a slot to another forest.
TreeSlot DecisionTree::copy_of(const TreeSlot& slot, DecisionTree& to) const {
  if (empty(slot)) return slot;
  const size_t bytes = slot.leaf() ? leaf_in(slot).bytes() : slots_behind(slot) * sizeof(TreeSlot);
  void* const memory = to.shared_->arena.take(bytes);
  std::memcpy(memory, tree_child<void>(slot.next), bytes);
  const TreeSlot copy{slot.bits, (slot.next & ~TreeSlot::kAddress) | tree_next(memory, 0, 0)};
  if (slot.leaf()) return copy;
  for (size_t i = 0; i < slots_behind(slot); ++i) {
    slots_of(copy)[i] = copy_of(slots_of(slot)[i], to);
  }
  return copy;
}

std::unique_ptr<Classifier> DecisionTree::clone() const {
  auto made = std::make_unique<DecisionTree>(WordSet{0}, defer_);
  made->words_ = words_;
  made->same_ = same_;
  made->used_ = used_;
  made->size_ = size_;
  made->built_size_ = built_size_;
  made->set_default(default_index());
  for (size_t tree = 0; tree <= kTrees; ++tree) {
    made->roots()[tree] = copy_of(roots()[tree], *made);
  }
  return made;
}

bool DecisionTree::outgrown() const {
  return size_ > 2 * built_size_ + kUnfitted || unfitted() > std::max(kUnfitted, size_ / 16);
}

size_t DecisionTree::masks() const {
  return static_cast<size_t>(std::count_if(roots(), roots() + kTrees + 1,
                                           [](const TreeSlot& root) { return !empty(root); }));
}

size_t DecisionTree::unfitted() const {
  const TreeSlot& last = roots()[kTrees];
  return empty(last) ? 0 : leaf_in(last).count();
}

size_t DecisionTree::memory_bytes() const {
  return sizeof *this + shared_->arena.bytes();
}

// --- kind ---------------------------------------------------------------------------------------

namespace {

size_t masks_of(std::span<const RuleRef> rules) {
  std::unordered_set<std::string_view> masks;
  for (const RuleRef& rule : rules) {
    masks.insert({reinterpret_cast<const char*>(&rule.match->mask), sizeof rule.match->mask});
  }
  return masks.size();
}

std::optional<Fit> plan_trees(std::span<const RuleRef> rules) {
  if (rules.size() < kManyRules) return std::nullopt;
  const size_t masks = masks_of(rules);
  if (masks < kManyMasks) return std::nullopt;
  return Fit{fmt::format("rules of {} masks: decision trees", masks),
             [rules](const Defer& defer) -> std::unique_ptr<Classifier> {
               auto made = std::make_unique<DecisionTree>(rules, defer);
               if (made->outgrown()) return nullptr;
               return made;
             }};
}

}  // namespace

namespace kinds {
extern const ClassifierKind decision_tree;
const ClassifierKind decision_tree{"decision-tree", plan_trees};
}  // namespace kinds

}  // namespace headrace::match
