// SPDX-License-Identifier: Apache-2.0
#include "match/structures/tree_cut.h"

#include <algorithm>
#include <array>
#include <bit>

#include "match/structures/tree_node.h"

namespace headrace::match {
namespace {

/// Rules that a cut is chosen by, at most.
constexpr size_t kSample = 1024;
/// Bits that a node branches on, at most: 64 KiB of slots.
constexpr size_t kMostBits = 12;
/// A further bit must take this share of the cost away.
constexpr double kLeastGain = 0.05;
/// A node is cut if that leaves less than this share of its cost.
constexpr double kWorthwhile = 0.85;

/// Rules of a node by the children that the bits chosen so far make.
struct Grouped {
  uint32_t rule;
  uint32_t group;
  uint32_t copies;  ///< that it may still have
  float share;      ///< of the rule's packets that come to this copy
};

/// What it costs to put a rule aside, in rules that a packet meets. So it is done where there is no
/// other way: eight rules beside each other cost less than another tree does.
constexpr double kAsideCost = 2000;

/// Chooses bits of one word, one after the other.
class WordCut {
 public:
  WordCut(const TreeRules& rules, size_t word, std::span<const TreeItem> items, size_t most_bits,
          uint32_t most_copies)
      : rules_(rules), word_(word), most_bits_(most_bits), all_(static_cast<double>(items.size())) {
    uint64_t ones = 0;
    uint64_t zeros = 0;
    for (const TreeItem& item : items) {
      items_.push_back({item.rule, 0, std::min(item.copies, most_copies), 1});
      const uint64_t mask = rules.masks(item.rule)[word];
      ones |= rules.values(item.rule)[word] & mask;
      zeros |= ~rules.values(item.rule)[word] & mask;
    }
    useful_ = ones & zeros;
    cost_ = all_;
  }

  void choose() {
    for (size_t n = 0; n < most_bits_ && useful_ != 0 && cost_ > kLeafRules / 4.0; ++n) {
      const auto [bit, cost] = best_bit();
      if (cost > cost_ * (1 - kLeastGain)) return;
      cost_ = cost;
      take(bit);
    }
  }
  [[nodiscard]] uint64_t bits() const { return bits_; }
  /// The rules that a packet of a rule meets, in the mean; rules put aside have their price.
  [[nodiscard]] double cost() const { return cost_; }

 private:
  /// Rules of a group by what they ask of a bit: 0, 1, nothing, nothing but may be in no more
  /// leaves; and their shares of packets.
  struct Sizes {
    std::array<float, 4> rules{};
    std::array<float, 4> shares{};
  };

  /// The bit that makes the cost least, and the cost.
  std::pair<unsigned, double> best_bit() {
    std::pair<unsigned, double> best{0, 1e300};
    for (uint64_t left = useful_; left != 0; left &= left - 1) {
      const auto bit = static_cast<unsigned>(std::countr_zero(left));
      sizes_.assign(size_t{1} << std::popcount(bits_), {});
      for (const Grouped& each : items_) {
        const auto fixed = rules_.masks(each.rule)[word_] >> bit & 1;
        const auto one = rules_.values(each.rule)[word_] >> bit & 1;
        const size_t kind = fixed != 0 ? one : each.copies >= 2 ? 2 : 3;
        sizes_[each.group].rules[kind] += 1;
        sizes_[each.group].shares[kind] += each.share;
      }
      double cost = aside_ * kAsideCost;
      for (const auto& [rules, shares] : sizes_) {
        const double zero = rules[0] + rules[2];
        const double one = rules[1] + rules[2];
        cost += shares[0] * zero + shares[1] * one + shares[2] * (zero + one) / 2 +
                shares[3] * kAsideCost;
      }
      if (cost / all_ < best.second) best = {bit, cost / all_};
    }
    return best;
  }

  void take(unsigned bit) {
    bits_ |= uint64_t{1} << bit;
    useful_ &= ~(uint64_t{1} << bit);
    std::vector<Grouped> next;
    for (Grouped each : items_) {
      const bool fixed = (rules_.masks(each.rule)[word_] >> bit & 1) != 0;
      const bool one = (rules_.values(each.rule)[word_] >> bit & 1) != 0;
      each.group *= 2;
      if (fixed) {
        each.group += one ? 1 : 0;
        next.push_back(each);
      } else if (each.copies >= 2) {
        each.copies /= 2;
        each.share /= 2;
        next.push_back(each);
        each.group += 1;
        next.push_back(each);
      } else {
        aside_ += each.share;
      }
    }
    items_ = std::move(next);
  }

  const TreeRules& rules_;
  size_t word_;
  size_t most_bits_;
  double all_;
  std::vector<Grouped> items_;
  std::vector<Sizes> sizes_;
  uint64_t useful_{0};
  uint64_t bits_{0};
  double aside_{0};  ///< shares of rules put aside
  double cost_{0};
};

}  // namespace

TreeCut choose_cut(const TreeRules& rules, std::span<const TreeItem> items) {
  std::vector<TreeItem> sample;
  const size_t step = (items.size() + kSample - 1) / kSample;
  for (size_t i = 0; i < items.size(); i += step) sample.push_back(items[i]);
  const size_t most_bits =
      std::min<size_t>(kMostBits, static_cast<size_t>(std::bit_width(items.size() / 2)));
  TreeCut best;
  double least = kWorthwhile * static_cast<double>(sample.size());
  uint32_t most_copies = 0;
  for (const TreeItem& item : items) most_copies = std::max(most_copies, item.copies);
  for (const uint32_t copies : {1u, 4u, most_copies}) {
    for (size_t word = 0; word < rules.words(); ++word) {
      WordCut cut(rules, word, sample, most_bits, copies);
      cut.choose();
      if (cut.bits() == 0 || cut.cost() >= least) continue;
      least = cut.cost();
      best = {word, cut.bits(), copies};
    }
  }
  return best;
}

namespace {

/// False if the leaves have more rules than there is room for.
bool divide(const TreeRules& rules, std::span<const TreeItem> items, TreeDraft& draft,
            std::vector<bool>& aside, size_t& room) {
  if (items.size() > kLeafRules) draft.cut = choose_cut(rules, items);
  if (draft.cut.bits == 0) {
    for (const TreeItem& item : items) draft.rules.push_back(item.rule);
    if (items.size() > room) return false;
    room -= items.size();
    return true;
  }
  std::vector<std::vector<TreeItem>> parts(size_t{1} << std::popcount(draft.cut.bits));
  for (const TreeItem& item : items) {
    if (aside[item.rule]) continue;
    const uint64_t value = rules.values(item.rule)[draft.cut.word];
    const uint64_t open =
        gather_bits_portable(~rules.masks(item.rule)[draft.cut.word], draft.cut.bits);
    const uint32_t copies = uint32_t{1} << std::popcount(open);
    if (copies > std::min(item.copies, draft.cut.copies)) {
      aside[item.rule] = true;
      continue;
    }
    const uint64_t first = gather_bits_portable(value, draft.cut.bits);
    for (uint64_t bits = open;; bits = (bits - 1) & open) {
      parts[first | bits].push_back({item.rule, item.copies / copies});
      if (bits == 0) break;
    }
  }
  draft.children.resize(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!divide(rules, parts[i], draft.children[i], aside, room)) return false;
    parts[i] = {};
  }
  return true;
}

/// Takes rules that were put aside out of leaves that came before, and puts the others in order.
void finish(const TreeRules& rules, const std::vector<bool>& aside, TreeDraft& draft) {
  for (TreeDraft& child : draft.children) {
    finish(rules, aside, child);
    draft.priority = std::max(draft.priority, child.priority);
  }
  std::erase_if(draft.rules, [&aside](uint32_t rule) { return aside[rule]; });
  std::stable_sort(draft.rules.begin(), draft.rules.end(), [&rules](uint32_t a, uint32_t b) {
    return priority_of(rules.result(a)) > priority_of(rules.result(b));
  });
  if (!draft.rules.empty()) draft.priority = priority_of(rules.result(draft.rules[0]));
}

}  // namespace

std::optional<TreeDraft> draft_tree(const TreeRules& rules, std::span<const TreeItem> items,
                                    std::vector<bool>& aside, size_t most) {
  TreeDraft draft;
  if (!divide(rules, items, draft, aside, most)) return std::nullopt;
  finish(rules, aside, draft);
  return draft;
}

}  // namespace headrace::match
