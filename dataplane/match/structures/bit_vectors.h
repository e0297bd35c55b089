// SPDX-License-Identifier: Apache-2.0
// Rules of addresses, protocol and ports, of which many leave a field open: bit vectors.
//
// Every rule has a place, and for each of five fields (IPv4 addresses, IP protocol, ports) every
// prefix that rules ask for has a vector, a bit for each place: that of a rule is set if the rule
// allows the prefix's values. A look-up takes from each field the vector of the longest prefix that
// covers the packet's value, intersects the five, and compares the rules of the places that are
// left. So what it costs depends little on how much rules leave open, which makes decision trees
// many and deep.
//
// Rules of one priority that ask for the same but ports are one group and share a place: a range of
// ports that was expanded is one, whatever the number of its matches.
//
// Places come in blocks of 512. Those of ordered blocks are by descending priority, with some left
// free, so that the first one with a match is the best. A rule that finds no free place between its
// neighbors goes to one of the blocks behind, of which all places are compared. A summary for each
// vector says which blocks have bits of it. What vectors leave (bits of a mask behind its prefix,
// other fields of their words) is in the comparison.
//
// Change in place. A place's group is published by one store, as a copy with the change, before its
// bits are set, field by field; it is found once all five are. Bits are cleared before the group
// goes. A look-up that meets bits of two rules at a place that one left to the other compares the
// group and rejects it. A new prefix gets a copy of the vector of the one that covers it, which the
// trie names once it is complete. Where places, prefixes or nodes run out, insert() refuses: plan
// anew.
//
// Memory: blocks times prefixes lines, so it grows with the square of the rules; kMostBytes.
//
// Source: Lakshman and Stiliadis, SIGCOMM 1998; summaries as in ABV (Baboescu and Varghese, SIGCOMM
// 2001).
//
// Thread safety: as match/structures/classifier.h.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "match/structures/bit_vector_search.h"
#include "match/structures/classifier.h"
#include "match/structures/classifier_kind.h"
#include "match/structures/line_arena.h"
#include "match/structures/prefix_classes.h"
#include "match/structures/ranked_classifier.h"
#include "match/structures/same_words.h"

namespace headrace::match {

class BitVectors final : public RankedClassifier {
 public:
  /// Rules in one group, at most.
  static constexpr size_t kGroupRules = 8 * RuleGroup::kRules;

  /// True if all that rules disagree in are words that vectors or groups look at.
  [[nodiscard]] static bool serves(std::span<const RuleRef> rules);
  /// Null if they take more places or memory than there may be.
  [[nodiscard]] static std::unique_ptr<BitVectors> make(std::span<const RuleRef> rules,
                                                        Defer defer);
  ~BitVectors() override;

  /// What a look-up is to cost, in cycles per packet. Only the order of costs matters.
  struct Estimate {
    size_t groups;  ///< of rules
    size_t open;    ///< of them, those that leave an address open
    double cost;
    double cost_of_trees;
  };
  /// For rules that are served.
  [[nodiscard]] static Estimate estimate(std::span<const RuleRef> rules);

  void rank(const FlowKey* burst, std::span<const uint8_t> active,
            Ranked* best) const noexcept override;
  [[nodiscard]] bool insert(const Match& match, uint16_t priority, uint32_t index) override;
  bool erase(const Match& match, uint16_t priority) override;
  bool replace(const Match& match, uint16_t priority, uint32_t index) override;
  [[nodiscard]] std::unique_ptr<Classifier> clone() const override { return copy(); }
  /// As clone().
  [[nodiscard]] std::unique_ptr<BitVectors> copy() const;

  [[nodiscard]] size_t size() const override { return size_; }
  [[nodiscard]] size_t memory_bytes() const override;
  /// Groups of rules, each with a place.
  [[nodiscard]] size_t groups() const { return places_of_key_.size(); }

 private:
  /// What the rules of a group have in common.
  struct GroupKey {
    uint64_t addresses;
    uint64_t address_mask;
    uint32_t protocol;
    uint32_t protocol_mask;
    uint16_t priority;
    auto operator<=>(const GroupKey&) const = default;
  };
  struct KeyHash {
    size_t operator()(const GroupKey& key) const;
  };
  /// What a rule of a group asks of ports, and its index.
  struct PortRule {
    uint32_t ports;
    uint32_t mask;
    uint32_t index;
  };
  struct Field {
    PrefixClasses classes;
    Block blocks{};
    Block summaries{};
    size_t capacity{0};  ///< classes that there is memory for
  };
  /// What callbacks of Defer may need when the classifier is gone.
  struct Shared {
    LineArena arena;
  };
  /// A rule's place and its number in the group.
  struct Position {
    uint32_t place;
    size_t rule;
  };
  using Prefixes = std::array<ValuePrefix, kVectorFields>;

  BitVectors(std::span<const RuleRef> rules, Defer defer);

  static GroupKey key_of(const Match& match, uint16_t priority);
  static PortRule port_rule_of(const Match& match, uint32_t index);
  static Prefixes prefixes_of(const GroupKey& key, const PortRule& rule);
  [[nodiscard]] bool in_form(const Match& match) const;

  [[nodiscard]] static size_t blocks_for(size_t groups);
  [[nodiscard]] bool build(std::span<const RuleRef> rules);
  [[nodiscard]] bool reserve();
  void make_groups(std::span<const RuleRef> rules);
  void fill(size_t field);
  void set_view();

  [[nodiscard]] static std::vector<PortRule> rules_in(const RuleGroup& group);
  [[nodiscard]] RuleGroup* make_group(const GroupKey& key, std::span<const PortRule> rules);
  void set_group(uint32_t place, RuleGroup* group);
  [[nodiscard]] std::optional<Position> position_of(const GroupKey& key,
                                                    const PortRule& rule) const;

  [[nodiscard]] BitBlock& block(size_t field, size_t at, uint32_t number) const;
  [[nodiscard]] bool has_room_for(const Prefixes& prefixes) const;
  void add_class(size_t field, const ValuePrefix& prefix);
  void set_bit(size_t field, uint32_t number, uint32_t place);
  void clear_bit(size_t field, uint32_t number, uint32_t place);
  template <typename Visit>
  void for_each_class(size_t field, const ValuePrefix& prefix, Visit&& visit) const;
  void clear_bits(size_t field, const ValuePrefix& prefix, uint32_t place,
                  std::span<const Prefixes> others);

  [[nodiscard]] std::optional<uint32_t> free_place(uint16_t priority) const;
  [[nodiscard]] std::optional<uint32_t> free_between(size_t begin, size_t end, size_t near) const;
  void take_place(uint32_t place, const GroupKey& key);
  void give_place(uint32_t place, const GroupKey& key);

  void retire(RuleGroup* group);

  Defer defer_;
  SameWords same_;
  VectorSearch* search_;  ///< the variant for this processor
  std::shared_ptr<Shared> shared_;
  TrieNodePool nodes_;
  std::vector<Field> fields_;
  std::vector<RuleGroup*> groups_;  ///< by place, and one more
  RuleGroup nothing_{};             ///< the group of free places
  BitVectorView view_{};
  size_t size_{0};

  size_t ordered_{0};            ///< blocks of places by priority
  size_t blocks_{0};             ///< all blocks
  std::vector<uint64_t> taken_;  ///< places, a bit each
  size_t unordered_taken_{0};    ///< places of the blocks behind the ordered ones
  std::atomic<size_t> blocks_in_use_{0};
  std::map<uint16_t, std::set<uint32_t>> by_priority_;  ///< ordered places
  std::unordered_map<GroupKey, std::vector<uint32_t>, KeyHash> places_of_key_;
  std::vector<RuleGroup*> retired_;  ///< unlinked, readers may still see them
};

}  // namespace headrace::match
