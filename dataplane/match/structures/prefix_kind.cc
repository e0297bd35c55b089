// SPDX-License-Identifier: Apache-2.0
// When a prefix table serves a set of rules: they share an exact part (say eth_type=0x0800) and
// differ in a prefix of one address field, and the longest match is always of the highest priority.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "match/structures/classifier_kind.h"
#include "match/structures/prefix_table.h"

namespace headrace::match {
namespace {

/// Fields whose rules are prefixes in practice.
constexpr std::array kPrefixFields = {Field::ipv4_dst, Field::ipv4_src, Field::ipv6_dst,
                                      Field::ipv6_src};

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

/// " under eth_type=0x800": the part that all rules share.
std::string exact_part(const Match& match, Field but) {
  std::string exact;
  for (const MatchField& each : match.fields) {
    if (each.field == but) continue;
    exact += exact.empty() ? " under " : ",";
    exact += value_of(each);
  }
  return exact;
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

template <size_t kRootOctets>
std::unique_ptr<Classifier> build_prefixes(const PrefixForm& form,
                                           std::span<const PrefixRef> prefixes,
                                           const Defer& defer) {
  auto built = std::make_unique<PrefixTable<kRootOctets>>(form, defer);
  if (!built->load(prefixes)) return nullptr;
  return built;
}

std::optional<Fit> plan_prefixes(std::span<const RuleRef> rules) {
  const Match& first = *rules.front().match;
  // Prefixes of one length are exact, too: a hash serves them, but the trie is faster while they
  // are short.
  if (have_one_mask(rules) && !has_short_prefix(first)) return std::nullopt;
  for (const Field field : kPrefixFields) {
    const PrefixForm form = prefix_form_of(first, field);
    std::optional<std::vector<PrefixRef>> prefixes = in_order(rules, form);
    if (!prefixes.has_value()) continue;
    const bool wide_root = rules.size() >= kWideRootRules && info(field).bytes == 4;
    return Fit{fmt::format("prefixes of {}{}: longest prefix match", info(field).name,
                           exact_part(first, field)),
               [form, wide_root, prefixes = std::move(*prefixes)](const Defer& defer) {
                 return wide_root ? build_prefixes<3>(form, prefixes, defer)
                                  : build_prefixes<2>(form, prefixes, defer);
               }};
  }
  return std::nullopt;
}

}  // namespace

namespace kinds {
extern const ClassifierKind prefix_kind;
const ClassifierKind prefix_kind{"prefix", plan_prefixes};
}  // namespace kinds

}  // namespace headrace::match
