// SPDX-License-Identifier: Apache-2.0
// For tests: a flow table as a list of rules, searched from end to end. Slow and obviously right.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "match/fields/match.h"
#include "match/structures/classifier.h"

namespace headrace::match {

class NaiveTable {
 public:
  struct Rule {
    Match match;
    uint16_t priority;
    uint32_t index;
  };

  [[nodiscard]] bool has(const Match& match, uint16_t priority) const {
    return std::any_of(rules.begin(), rules.end(), [&](const Rule& rule) {
      return rule.priority == priority && rule.match.same_as(match);
    });
  }
  void insert(const Match& match, uint16_t priority, uint32_t index) {
    rules.push_back({match, priority, index});
  }
  void erase(size_t position) {
    rules[position] = rules.back();
    rules.pop_back();
  }

  /// True if `result` is the index of a matching rule that no other exceeds in priority, or the
  /// default where none matches.
  [[nodiscard]] bool agrees(const FlowKey& packet, uint32_t result, uint32_t otherwise) const {
    const Rule* best = nullptr;
    const Rule* found = nullptr;
    for (const Rule& rule : rules) {
      if (!rule.match.matches(packet)) continue;
      if (best == nullptr || rule.priority > best->priority) best = &rule;
      if (rule.index == result) found = &rule;
    }
    if (best == nullptr) return result == otherwise;
    return found != nullptr && found->priority == best->priority;
  }

  std::vector<Rule> rules;
};

}  // namespace headrace::match
