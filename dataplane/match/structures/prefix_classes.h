// SPDX-License-Identifier: Apache-2.0
// The values of one field of a packet by the longest prefix among some that covers them: a class
// for each prefix, found by a trie of octets (16-8-8 for four octets, 8-8 for two, 8 for one).
//
// Change in place: a prefix that comes gets a class, and once what is to be found by the class is
// complete, publish() lets the trie say it, value by value. Prefixes never go: who has too many
// that no rule uses builds anew.
//
// Thread safety: workers may read the trie while one control thread changes it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "match/structures/block.h"
#include "match/structures/trie_node_pool.h"

namespace headrace::match {

/// The first `length` bits of a field, host order, the others 0.
struct ValuePrefix {
  uint32_t value{0};
  uint8_t length{0};
  auto operator<=>(const ValuePrefix&) const = default;
};

class PrefixClasses {
 public:
  /// An entry with this bit holds the number of a node in the others, else a class.
  static constexpr uint32_t kNode = 0x80000000;

  /// Of a field of `bits` (8, 16 or 32). Class 0 is that of the prefix of length 0.
  PrefixClasses(size_t bits, TrieNodePool& nodes);

  /// As `other` is, whose nodes `nodes` has copies of.
  PrefixClasses(const PrefixClasses& other, TrieNodePool& nodes);

  [[nodiscard]] const uint32_t* root() const { return root_.as<uint32_t>(); }
  /// Classes.
  [[nodiscard]] size_t size() const { return prefixes_.size(); }
  [[nodiscard]] const ValuePrefix& prefix(uint32_t number) const { return prefixes_[number]; }
  [[nodiscard]] std::optional<uint32_t> find(const ValuePrefix& prefix) const;
  /// The class of the longest prefix that covers this one and is not this one, which must be longer
  /// than 0.
  [[nodiscard]] uint32_t parent_of(const ValuePrefix& prefix) const;

  /// Adds a prefix that is not there; workers don't see its class before publish().
  uint32_t add(const ValuePrefix& prefix);
  /// Nodes that publish() may take.
  static constexpr size_t kNodes = 2;
  void publish(uint32_t number);

  /// Calls visit(class) for the prefixes that this one covers, itself first if it is there.
  template <typename Visit>
  void for_each_covered(const ValuePrefix& prefix, Visit&& visit) const {
    for (auto at = numbers_.lower_bound(prefix); at != numbers_.end(); ++at) {
      if (!covers(prefix, at->first)) return;
      visit(at->second);
    }
  }
  /// True if `wide` covers `narrow`.
  [[nodiscard]] bool covers(const ValuePrefix& wide, const ValuePrefix& narrow) const {
    return wide.length <= narrow.length && first_bits(narrow.value, wide.length) == wide.value;
  }

  [[nodiscard]] size_t memory_bytes() const { return root_.bytes(); }

 private:
  [[nodiscard]] uint32_t first_bits(uint32_t value, size_t length) const {
    return length == 0 ? 0 : value >> (bits_ - length) << (bits_ - length);
  }
  void set(uint32_t* entry, uint32_t number);

  size_t bits_;
  size_t root_bits_;
  TrieNodePool& nodes_;
  Block root_;
  std::map<ValuePrefix, uint32_t> numbers_;  ///< what covers a prefix is before it
  std::vector<ValuePrefix> prefixes_;
};

}  // namespace headrace::match
