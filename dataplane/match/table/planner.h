// SPDX-License-Identifier: Apache-2.0
// Which structure serves a set of rules, and why.
//
// The planner asks the kinds of classifier in the order of the list in match/meson.build and takes
// the first that serves the rules of the table. A match-all rule of the lowest priority, the
// table-miss entry, is kept aside as the default of any structure, so that it spoils none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "match/structures/classifier.h"
#include "match/structures/classifier_kind.h"

namespace headrace::match {

/// The rule kept aside.
struct DefaultRule {
  uint16_t priority;
  uint32_t index;
};

/// What the planner chose.
struct Plan {
  const ClassifierKind* kind{nullptr};
  std::string reason;  ///< a sentence for people: `headrace switch tables` prints it
  std::optional<DefaultRule> default_rule{};
  WordSet words{0};  ///< all words that any rule matches
};

/// The kinds of classifier in order of preference: the first serves few rules, the last any.
[[nodiscard]] std::span<const ClassifierKind* const> classifier_kinds();

/// Chooses the kind for `rules`, builds it, fills it and sets its default. Never null.
[[nodiscard]] std::unique_ptr<Classifier> build(std::span<const RuleRef> rules, const Defer& defer,
                                                Plan& plan);

}  // namespace headrace::match
