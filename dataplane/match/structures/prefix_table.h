// SPDX-License-Identifier: Apache-2.0
// Longest prefix match on one field: a multi-bit trie, one array access per octet.
//
// Layout. The root branches on the first two octets of the address (or three: DIR-24-8, for very
// many IPv4 rules), every further node ("node") on one more. So IPv4 is 16-8-8, IPv6 16-8-8-...-8.
// An entry is either the index of the rule whose prefix is the longest there, pushed down to all
// the entries that it covers, or the number of a node. A prefix of up to 16 bits is found with one
// access, up to 24 with two. The root takes 256 KiB, whatever the number of rules; a look-up
// touches one line of it and one per node, so that a million flows to a thousand prefixes keep a
// thousand lines hot. A burst goes level by level, without a branch that depends on an address: the
// misses of its packets overlap.
//
// The exact part that all rules share (eth_type=0x0800, say) is compared first, on the whole burst.
//
// Change in place. No depth is kept with the entries: since no two rules share an index, an entry
// that holds the index of the longest shorter prefix belongs to it. Insert turns such entries in
// the range into the new index, erase turns them back; each is one store, so a reader sees either
// rule. A node in which no prefix ends is folded into its parent's entry and used again after a
// grace period.
//
// Priorities. Longest match must mean highest priority (see PrefixSet::admits()); a rule that
// breaks this is refused, and so is a second rule of the same prefix. The planner then finds
// another structure.
//
// Thread safety: as match/structures/classifier.h.
#pragma once

#include <memory>
#include <vector>

#include "match/fields/masked_words.h"
#include "match/structures/block.h"
#include "match/structures/classifier.h"
#include "match/structures/prefix.h"
#include "match/structures/prefix_gather.h"
#include "match/structures/trie_node_pool.h"

namespace headrace::match {

/// From this many IPv4 rules the root of 64 MiB pays: most /16 would have a node of their own.
inline constexpr size_t kWideRootRules = size_t{1} << 17;

/// kRootOctets: 2 or 3.
template <size_t kRootOctets>
class PrefixTable final : public Classifier {
 public:
  PrefixTable(const PrefixForm& form, Defer defer);
  ~PrefixTable() override;

  void lookup(const FlowKey* burst, std::span<const uint8_t> active, uint32_t* results,
              WordSet differ) const noexcept override;
  /// False for another form, a priority out of order, a second rule of the prefix, or no room.
  [[nodiscard]] bool insert(const Match& match, uint16_t priority, uint32_t index) override;
  /// Fills an empty table that no worker has seen, each prefix right before those in it: many times
  /// faster than one by one. What the planner checks for is not checked again: one form, no prefix
  /// twice, longest is highest. False without room for all.
  [[nodiscard]] bool load(std::span<const PrefixRef> in_order);
  bool erase(const Match& match, uint16_t priority) override;
  bool replace(const Match& match, uint16_t priority, uint32_t index) override;
  [[nodiscard]] std::unique_ptr<Classifier> clone() const override;

  /// True once a root of three octets pays.
  [[nodiscard]] bool outgrown() const override {
    return kRootOctets == 2 && info(form_.field).bytes == 4 && set_.size() >= kWideRootRules;
  }
  [[nodiscard]] size_t size() const override { return set_.size(); }
  [[nodiscard]] size_t memory_bytes() const override;

 private:
  static constexpr size_t kRootBits = kRootOctets * 8;
  static constexpr size_t kRootSize = size_t{1} << kRootBits;
  struct Nodes;

  void lookup_each(const FlowKey* burst, std::span<const uint8_t> active, uint32_t* results,
                   WordSet differ) const noexcept;
  template <bool kOneExactWord>
  void lookup_exact(const FlowKey* burst, std::span<const uint8_t> active,
                    uint32_t* results) const noexcept;
  [[nodiscard]] bool exact_part_matches(const FlowKey& values) const;

  void repaint(uint32_t* entries, size_t count, uint32_t from, uint32_t to);
  [[nodiscard]] uint32_t open_node(uint32_t& entry);
  void paint(const Prefix& prefix, uint32_t from, uint32_t to);
  void fold(const Prefix& prefix, uint32_t parent);
  [[nodiscard]] uint32_t parent_of(const Prefix& prefix) const;

  PrefixForm form_;
  MaskedWords exact_words_;
  std::vector<uint64_t> exact_key_;
  size_t field_offset_;
  WordSet used_;  ///< words that rules match
  Defer defer_;
  Block root_memory_;
  uint32_t* root_;
  std::shared_ptr<Nodes> nodes_;  ///< outlives the table in callbacks
  uint32_t whole_;                ///< the rule of length 0; kNone without one
  PrefixLookup gather_;           ///< for one exact word, whole four-octet words; null: portable
  PrefixSet set_;
};

extern template class PrefixTable<2>;
extern template class PrefixTable<3>;

}  // namespace headrace::match
