// SPDX-License-Identifier: Apache-2.0
// Rules that are prefixes of one field, and the set of them that the control thread keeps.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <optional>

#include "match/fields/match.h"
#include "match/structures/prefix_map.h"

namespace headrace::match {

/// A prefix of an address field of up to 16 octets: bits beyond `length` are 0.
struct Prefix {
  std::array<uint8_t, 16> bytes{};
  uint8_t length{0};

  bool operator==(const Prefix&) const = default;

  [[nodiscard]] PrefixKey key() const;
};

/// A rule of a prefix table.
struct PrefixRef {
  PrefixKey key;
  uint16_t priority;
  uint32_t index;
};

/// What all rules of a prefix table share: the field with the prefix, and the exact rest.
struct PrefixForm {
  Field field{Field::ipv4_dst};
  FlowKey exact_mask{};  ///< zero over the field
  FlowKey exact_value{};
  FlowKey outside{};  ///< all-ones but over the field

  /// The rule's prefix; nothing if its exact part differs or its mask is no prefix.
  [[nodiscard]] std::optional<Prefix> prefix_of(const Match& match) const;
};

/// The form of `match` with respect to `field`.
[[nodiscard]] PrefixForm prefix_form_of(const Match& match, Field field);

/// The prefixes of a table with their rules, and whether longest match means highest priority.
class PrefixSet {
 public:
  using Rule = PrefixRule;

  /// True if the longest matching prefix stays one of the highest priority when this one is added:
  /// no shorter prefix that covers it has a higher priority, no longer one in it a lower. Cheap if
  /// priorities do not fall with length; else it looks at the relatives.
  [[nodiscard]] bool admits(const Prefix& prefix, uint16_t priority) const;

  /// The prefix must not be there.
  void insert(const PrefixKey& prefix, Rule rule);
  /// Makes room for so many prefixes in all; while there are none.
  void reserve(size_t prefixes) { rules_.reserve(prefixes); }
  void erase(const Prefix& prefix);
  [[nodiscard]] Rule* find(const Prefix& prefix);
  [[nodiscard]] const Rule* find(const Prefix& prefix) const;
  /// The longest prefix that covers this one and is shorter; `shortest` bits at least.
  [[nodiscard]] const Rule* parent(const Prefix& prefix, size_t shortest) const;
  [[nodiscard]] size_t size() const { return rules_.size(); }

 private:
  static constexpr size_t kLengths = 129;

  PrefixMap rules_;
  std::array<std::map<uint16_t, uint32_t>, kLengths> priorities_;  ///< how many rules, by length
  std::bitset<kLengths> lengths_;                                  ///< those that occur
};

}  // namespace headrace::match
