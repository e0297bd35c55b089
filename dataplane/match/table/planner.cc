// SPDX-License-Identifier: Apache-2.0
#include "match/table/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <vector>

namespace headrace::match {

namespace kinds {
#define HEADRACE_CLASSIFIER(kind) extern const ClassifierKind kind;
#include "classifier_list.h"
#undef HEADRACE_CLASSIFIER
}  // namespace kinds

namespace {

constexpr std::array kKinds = {
#define HEADRACE_CLASSIFIER(kind) &kinds::kind,
#include "classifier_list.h"
#undef HEADRACE_CLASSIFIER
};

/// The match-all rule, if no other rule is of a lower priority.
std::optional<DefaultRule> default_of(std::span<const RuleRef> rules) {
  const RuleRef* all = nullptr;
  for (const RuleRef& rule : rules) {
    if (rule.match->words == 0 && (all == nullptr || rule.priority < all->priority)) all = &rule;
  }
  if (all == nullptr) return std::nullopt;
  const bool lowest = std::all_of(rules.begin(), rules.end(), [all](const RuleRef& rule) {
    return &rule == all || rule.priority > all->priority ||
           (rule.priority == all->priority && rule.match->words != 0);
  });
  if (!lowest) return std::nullopt;
  return DefaultRule{all->priority, all->index};
}

/// All but the default.
std::vector<RuleRef> others_of(const std::optional<DefaultRule>& kept_aside,
                               std::span<const RuleRef> rules) {
  std::vector<RuleRef> others;
  others.reserve(rules.size());
  std::copy_if(rules.begin(), rules.end(), std::back_inserter(others), [&](const RuleRef& rule) {
    return !kept_aside.has_value() || rule.index != kept_aside->index;
  });
  return others;
}

}  // namespace

std::span<const ClassifierKind* const> classifier_kinds() {
  return kKinds;
}

std::unique_ptr<Classifier> build(std::span<const RuleRef> rules, const Defer& defer, Plan& plan) {
  plan = {};
  plan.default_rule = default_of(rules);
  for (const RuleRef& rule : rules) plan.words |= rule.match->words;
  const std::vector<RuleRef> others = others_of(plan.default_rule, rules);
  std::string full;  // what would have served but had no room
  for (const ClassifierKind* kind : kKinds) {
    const std::optional<Fit> fit = kind->plan(others);
    if (!fit.has_value()) continue;
    std::unique_ptr<Classifier> built = fit->build(defer);
    if (built == nullptr) {
      full += fmt::format("no room in {}; ", kind->name);
      continue;
    }
    plan.kind = kind;
    plan.reason = full + fit->reason;
    if (plan.default_rule.has_value()) built->set_default(plan.default_rule->index);
    return built;
  }
  assert(false && "the last kind takes any rules");
  __builtin_unreachable();
}

}  // namespace headrace::match
