// SPDX-License-Identifier: Apache-2.0
// A kind of classifier as the planner knows it: a name, and a function that says whether it serves
// a set of rules, why, and how to build it.
//
// A new classifier is one source file with a class and a descriptor
//
//     namespace headrace::match::kinds {
//     const ClassifierKind my_table{"mine", plan_mine};
//     }
//
// and one line with the file's name, `my_table`, in the list of match/meson.build, at the place
// where the planner is to try it. Nothing else names a kind.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "match/fields/match.h"
#include "match/structures/classifier.h"

namespace headrace::match {

/// One rule as the planner sees it.
struct RuleRef {
  const Match* match;
  uint16_t priority;
  uint32_t index;
};

/// What a kind says to rules that it serves.
struct Fit {
  /// Why, as a sentence for people: "one mask over eth_dst: exact hash of one word".
  std::string reason;
  /// Makes the classifier, filled with the rules that were planned for; null if it runs out of
  /// room, when the kinds behind it are asked. Runs at most once, before plan()'s rules go.
  std::function<std::unique_ptr<Classifier>(const Defer&)> build;
};

struct ClassifierKind {
  std::string_view name;  ///< "tuple-space": as `headrace switch tables` shows it
  /// Nothing if another kind serves these rules better. The table-miss rule is not among them.
  std::optional<Fit> (*plan)(std::span<const RuleRef> rules);
};

/// Inserts `rules` one by one; null if one is refused.
template <typename Table>
[[nodiscard]] std::unique_ptr<Classifier> filled(std::unique_ptr<Table> table,
                                                 std::span<const RuleRef> rules) {
  for (const RuleRef& rule : rules) {
    if (!table->insert(*rule.match, rule.priority, rule.index)) return nullptr;
  }
  return table;
}

/// True if all rules, of which there is one at least, have one mask.
[[nodiscard]] inline bool have_one_mask(std::span<const RuleRef> rules) {
  for (const RuleRef& rule : rules) {
    if (std::memcmp(&rule.match->mask, &rules[0].match->mask, sizeof(FlowKey)) != 0) return false;
  }
  return true;
}

/// "eth_dst,vlan_vid": the fields as the rule's sender named them.
[[nodiscard]] inline std::string names_of(const Match& match) {
  std::string names;
  for (const MatchField& each : match.fields) {
    if (!names.empty()) names += ',';
    names += info(each.field).name;
  }
  return names;
}

}  // namespace headrace::match
