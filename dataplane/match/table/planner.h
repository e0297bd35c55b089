// SPDX-License-Identifier: Apache-2.0
// Which structure serves a set of rules, and why.
//
// The planner looks at the rules of one table and takes the first structure that fits:
//   1. direct: at most DirectTable::kRules rules of any masks;
//   2. hash: all rules have one mask, unless it is that of short IPv4 prefixes;
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
#include <vector>

#include "match/fields/match.h"
#include "match/structures/classifier.h"
#include "match/structures/prefix.h"

namespace headrace::match {

/// One rule as the planner sees it.
struct RuleRef {
  const Match* match;
  uint16_t priority;
  uint32_t index;
};

/// The rule kept aside.
struct DefaultRule {
  uint16_t priority;
  uint32_t index;
};

struct Plan {
  Structure structure{Structure::direct};
  std::string reason;     ///< "one mask over eth_dst,vlan_vid: exact hash"
  FlowKey mask{};         ///< hash: the mask of all rules
  PrefixForm form{};      ///< prefix
  bool wide_root{false};  ///< prefix: DIR-24-8 instead of 16-8-8
  /// Prefix: the rules, each right before those in it; build() takes them.
  std::vector<PrefixRef> prefixes{};
  std::optional<DefaultRule> default_rule{};
  WordSet words{0};  ///< all words that any rule matches
};

/// Chooses the structure for `rules`.
[[nodiscard]] Plan plan(std::span<const RuleRef> rules);

/// Builds the structure of `plan` and fills it with `rules`, those that plan() was given. Null if
/// they do not fit it (a plan made for other rules, or a prefix table out of nodes).
[[nodiscard]] std::unique_ptr<Classifier> build(Plan& plan, std::span<const RuleRef> rules,
                                                const Defer& defer);

}  // namespace headrace::match
