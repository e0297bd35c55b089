// SPDX-License-Identifier: Apache-2.0
// Which structure serves a set of rules, and why.
//
// The planner looks at the rules of one table and takes the first structure that fits:
//   1. direct: at most kDirectLimit rules of any masks;
//   2. hash: all rules have one mask;
//   3. prefix: all rules share an exact part (say eth_type=0x0800) and differ in a prefix of one
//      address field, and the longest match is always of the highest priority;
//   4. tuple space: anything.
// A match-all rule of the lowest priority, the table-miss entry, is kept aside as the default of
// any structure, so that it spoils none.
//
// The reason is a sentence for people: `headrace switch tables` prints it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "match/classifier.h"
#include "match/match.h"

namespace headrace::match {

/// Up to this many rules are compared one by one.
inline constexpr size_t kDirectLimit = 8;

/// One rule as the planner sees it.
struct RuleRef {
  const Match* match;
  uint16_t priority;
  uint32_t index;
};

struct Plan {
  Structure structure{Structure::direct};
  std::string reason;                     ///< "one mask over eth_dst,vlan_vid: exact hash"
  FieldValues mask{};                     ///< hash: the mask; prefix: the mask of the exact part
  FieldValues exact{};                    ///< prefix: the value of the exact part
  Field prefix_field{Field::ipv4_dst};    ///< prefix
  std::optional<uint32_t> default_index;  ///< the match-all rule kept aside
  uint16_t default_priority{0};           ///< its priority
  WordSet words{0};                       ///< all words that any rule matches
};

/// Chooses the structure for `rules`.
[[nodiscard]] Plan plan(std::span<const RuleRef> rules);

/// Builds the structure of `plan`, filled with `rules`.
[[nodiscard]] std::unique_ptr<Classifier> build(const Plan& plan, std::span<const RuleRef> rules,
                                                const Defer& defer);

}  // namespace headrace::match
