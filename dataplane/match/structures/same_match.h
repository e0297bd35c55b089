// SPDX-License-Identifier: Apache-2.0
// Rules of one match but several priorities: an exact structure holds the highest of them in the
// match's slot, the others wait here, and one of them takes the slot when the highest goes.
//
// Thread safety: control thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "match/structures/ranked.h"

namespace headrace::match {

class SameMatchRules {
 public:
  /// A rule comes to `slot`, which holds `current` (not 0): what the slot is to hold.
  [[nodiscard]] Ranked add(uint64_t slot, Ranked current, Ranked rule) {
    waiting_[slot].push_back(std::min(current, rule));
    return std::max(current, rule);
  }

  /// The rule of `priority` goes from `slot`: what the slot is to hold, 0 if no rule is left;
  /// nothing if there is no such rule.
  [[nodiscard]] std::optional<Ranked> erase(uint64_t slot, Ranked current, uint16_t priority) {
    const bool holds = priority_of(current) == priority;
    const auto found = waiting_.find(slot);
    if (found == waiting_.end()) return holds ? std::optional<Ranked>(0) : std::nullopt;
    std::vector<Ranked>& others = found->second;
    const auto gone =
        holds ? std::max_element(others.begin(), others.end()) : with_priority(others, priority);
    if (gone == others.end()) return std::nullopt;
    const Ranked next = holds ? *gone : current;
    others.erase(gone);
    if (others.empty()) waiting_.erase(found);
    return next;
  }

  /// The rule of `priority` gets another index: what the slot is to hold; nothing if there is no
  /// such rule.
  [[nodiscard]] std::optional<Ranked> replace(uint64_t slot, Ranked current, uint16_t priority,
                                              uint32_t index) {
    if (priority_of(current) == priority) return ranked(priority, index);
    const auto found = waiting_.find(slot);
    if (found == waiting_.end()) return std::nullopt;
    const auto rule = with_priority(found->second, priority);
    if (rule == found->second.end()) return std::nullopt;
    *rule = ranked(priority, index);
    return current;
  }

 private:
  static std::vector<Ranked>::iterator with_priority(std::vector<Ranked>& rules,
                                                     uint16_t priority) {
    return std::find_if(rules.begin(), rules.end(),
                        [priority](Ranked each) { return priority_of(each) == priority; });
  }

  std::unordered_map<uint64_t, std::vector<Ranked>> waiting_;
};

}  // namespace headrace::match
