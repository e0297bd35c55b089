// SPDX-License-Identifier: Apache-2.0
#include "match/table/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "match/structures/direct_table.h"
#include "match/structures/hash_table.h"
#include "match/structures/prefix_table.h"
#include "match/structures/tuple_space.h"

namespace headrace::match {
namespace {

/// Fields whose rules are prefixes in practice.
constexpr std::array kPrefixFields = {Field::ipv4_dst, Field::ipv4_src, Field::ipv6_dst,
                                      Field::ipv6_src};

bool equal(const FlowKey& a, const FlowKey& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// "eth_dst,vlan_vid": the fields as the rule's sender named them.
std::string names_of(const Match& match) {
  std::string names;
  for (const MatchField& each : match.fields) {
    if (!names.empty()) names += ',';
    names += info(each.field).name;
  }
  return names;
}

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

bool is_default(const Plan& plan, const RuleRef& rule) {
  return plan.default_rule.has_value() && rule.index == plan.default_rule->index;
}

/// The rules as prefixes, each right before those in it; nothing unless all rules have the form,
/// each prefix occurs once, and longest is highest: along a chain of prefixes, no parent is of a
/// higher priority than its child.
std::optional<std::vector<PrefixRef>> in_order(std::span<const RuleRef> rules,
                                               const PrefixForm& form) {
  std::vector<PrefixRef> ordered;
  ordered.reserve(rules.size());
  for (const RuleRef& rule : rules) {
    const std::optional<Prefix> prefix = form.prefix_of(*rule.match);
    if (!prefix.has_value()) return std::nullopt;
    ordered.push_back({prefix->key(), rule.priority, rule.index});
  }
  std::sort(ordered.begin(), ordered.end(), [](const PrefixRef& a, const PrefixRef& b) {
    if (a.key.high != b.key.high) return a.key.high < b.key.high;
    if (a.key.low != b.key.low) return a.key.low < b.key.low;
    return a.key.length < b.key.length;
  });
  std::vector<const PrefixRef*> parents;  // what covers the next
  for (const PrefixRef& each : ordered) {
    while (!parents.empty() && !parents.back()->key.covers(each.key)) parents.pop_back();
    if (!parents.empty()) {
      const PrefixRef& parent = *parents.back();
      if (parent.key == each.key || parent.priority > each.priority) return std::nullopt;
    }
    parents.push_back(&each);
  }
  return ordered;
}

std::vector<RuleRef> others_of(const Plan& plan, std::span<const RuleRef> rules) {
  std::vector<RuleRef> others;
  others.reserve(rules.size());
  std::copy_if(rules.begin(), rules.end(), std::back_inserter(others),
               [&](const RuleRef& rule) { return !is_default(plan, rule); });
  return others;
}

template <size_t kRootOctets>
std::unique_ptr<Classifier> build_prefixes(Plan& plan, const Defer& defer) {
  auto built = std::make_unique<PrefixTable<kRootOctets>>(plan.form, defer);
  const std::vector<PrefixRef> prefixes = std::exchange(plan.prefixes, {});
  if (!built->load(prefixes)) return nullptr;
  return built;
}

/// "eth_type=0x800": a field's value as a number.
std::string value_of(const MatchField& field) {
  std::string digits;
  for (size_t i = 0; i < info(field.field).bytes; ++i) {
    if (digits.empty()) {
      if (field.value[i] != 0) digits = fmt::format("{:x}", field.value[i]);
    } else {
      digits += fmt::format("{:02x}", field.value[i]);
    }
  }
  return fmt::format("{}=0x{}", info(field.field).name, digits.empty() ? "0" : digits);
}

/// True if the match names an IPv4 prefix that a trie finds in two steps.
bool has_short_prefix(const Match& match) {
  constexpr size_t kLongest = 24;
  return std::any_of(kPrefixFields.begin(), kPrefixFields.end(), [&match](Field field) {
    if (info(field).bytes != 4) return false;
    const std::optional<Prefix> prefix = prefix_form_of(match, field).prefix_of(match);
    return prefix.has_value() && prefix->length != 0 && prefix->length <= kLongest;
  });
}

bool plan_prefix(Plan& plan, std::span<const RuleRef> others) {
  for (const Field field : kPrefixFields) {
    const PrefixForm form = prefix_form_of(*others.front().match, field);
    std::optional<std::vector<PrefixRef>> prefixes = in_order(others, form);
    if (!prefixes.has_value()) continue;
    plan.prefixes = std::move(*prefixes);
    std::string exact;
    for (const MatchField& each : others.front().match->fields) {
      if (each.field == field) continue;
      exact += exact.empty() ? " under " : ",";
      exact += value_of(each);
    }
    plan.structure = Structure::prefix;
    plan.form = form;
    plan.wide_root = others.size() >= kWideRootRules && info(field).bytes == 4;
    plan.reason = fmt::format("prefixes of {}{}: longest prefix match", info(field).name, exact);
    return true;
  }
  return false;
}

}  // namespace

Plan plan(std::span<const RuleRef> rules) {
  Plan plan;
  plan.default_rule = default_of(rules);
  for (const RuleRef& rule : rules) plan.words |= rule.match->words;
  const std::vector<RuleRef> others = others_of(plan, rules);
  if (others.size() <= DirectTable::kRules) {
    plan.structure = Structure::direct;
    plan.reason = "a few rules: compared directly";
    return plan;
  }
  const Match& first = *others.front().match;
  const bool one_mask = std::all_of(others.begin(), others.end(), [&](const RuleRef& rule) {
    return equal(rule.match->mask, first.mask);
  });
  // Prefixes of one length are exact, too, but the trie is faster while they are short.
  const bool short_prefixes = one_mask && has_short_prefix(first);
  if (short_prefixes && plan_prefix(plan, others)) return plan;
  if (one_mask && first.words != 0) {
    plan.structure = Structure::hash;
    plan.mask = first.mask;
    plan.reason = fmt::format("one mask over {}: exact hash", names_of(first));
    return plan;
  }
  if (plan_prefix(plan, others)) return plan;
  plan.structure = Structure::tuple_space;
  plan.reason = "rules of several masks: tuple space by priority";
  return plan;
}

std::unique_ptr<Classifier> build(Plan& plan, std::span<const RuleRef> rules, const Defer& defer) {
  std::unique_ptr<Classifier> built;
  switch (plan.structure) {
    case Structure::direct:
      built = std::make_unique<DirectTable>(defer);
      break;
    case Structure::hash:
      built = std::make_unique<HashTable>(plan.mask, rules.size(), defer);
      break;
    case Structure::prefix:
      built = plan.wide_root ? build_prefixes<3>(plan, defer) : build_prefixes<2>(plan, defer);
      if (built == nullptr) return nullptr;
      break;
    case Structure::tuple_space:
      built = std::make_unique<TupleSpace>(defer);
      break;
  }
  if (plan.default_rule.has_value()) built->set_default(plan.default_rule->index);
  if (plan.structure == Structure::prefix) return built;
  for (const RuleRef& rule : rules) {
    if (is_default(plan, rule)) continue;
    if (!built->insert(*rule.match, rule.priority, rule.index)) return nullptr;
  }
  return built;
}

}  // namespace headrace::match
