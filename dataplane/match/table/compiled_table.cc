// SPDX-License-Identifier: Apache-2.0
#include "match/table/compiled_table.h"

#include <algorithm>
#include <cassert>
#include <vector>

namespace headrace::match {
namespace {

/// A table that has shrunk to this part of its peak is planned anew: something simpler may do.
constexpr size_t kShrunk = 4;
/// One in which look-ups search so many structures, and that has twice the masks or the rules that
/// it was planned for, is planned anew, too: something for many masks may do.
constexpr size_t kManyMasks = 12;

/// Whether match-all rule `index` of this priority is below all others, as the planner has it.
bool is_lowest(const CompiledTable::RuleSource& rules, uint16_t priority, uint32_t index) {
  bool lowest = true;
  rules([&](const Match& match, uint16_t other, uint32_t other_index) {
    const bool below = other < priority || (other == priority && match.words == 0);
    if (other_index != index && below) lowest = false;
  });
  return lowest;
}

}  // namespace

CompiledTable::CompiledTable(Defer defer, RuleSource rules, uint32_t miss, size_t rebuild_limit)
    : defer_(std::move(defer)),
      rules_(std::move(rules)),
      miss_(miss),
      rebuild_limit_(rebuild_limit) {
  std::unique_ptr<Classifier> empty = build({}, defer_, plan_);
  empty->set_default(miss_);
  current_.store(empty.release(), std::memory_order_release);
}

CompiledTable::~CompiledTable() {
  delete current_.load(std::memory_order_relaxed);
}

bool CompiledTable::is_default(const Match& match, uint16_t priority) const {
  return match.words == 0 && plan_.default_rule.has_value() &&
         plan_.default_rule->priority == priority;
}

/// True if the rule is now served by the structure as it is.
bool CompiledTable::insert_in_place(const Match& match, uint16_t priority, uint32_t index) {
  if (match.words == 0) {
    // Below all others it becomes the default; a second one is the planner's to place.
    if (plan_.default_rule.has_value() || !is_lowest(rules_, priority, index)) return false;
    classifier().set_default(index);
    plan_.default_rule = DefaultRule{priority, index};
    return true;
  }
  // A rule below the default unmakes it: plan anew.
  if (plan_.default_rule.has_value() && priority < plan_.default_rule->priority) return false;
  if (!classifier().insert(match, priority, index)) return false;
  plan_.words |= match.words;
  peak_size_ = std::max(peak_size_, classifier().size());
  const size_t masks = classifier().masks();
  const bool doubled = masks >= 2 * planned_masks_ || classifier().size() >= 2 * planned_size_;
  return !classifier().outgrown() && (masks < kManyMasks || !doubled);
}

bool CompiledTable::may_rebuild() {
  if (classifier().size() > rebuild_limit_) return false;
  rebuild();
  return true;
}

bool CompiledTable::insert(const Match& match, uint16_t priority, uint32_t index) {
  assert(index < kIndexLimit);
  return insert_in_place(match, priority, index) || may_rebuild();
}

bool CompiledTable::erase(const Match& match, uint16_t priority) {
  if (is_default(match, priority)) {
    classifier().set_default(miss_);
    plan_.default_rule.reset();
    return true;
  }
  const bool erased = classifier().erase(match, priority);
  const bool simplest = plan_.kind == classifier_kinds().front();
  const bool simpler_may_do = !simplest && classifier().size() * kShrunk <= peak_size_;
  return (erased && !simpler_may_do) || may_rebuild();
}

bool CompiledTable::replace(const Match& match, uint16_t priority, uint32_t index) {
  if (is_default(match, priority)) {
    classifier().set_default(index);
    plan_.default_rule->index = index;
    return true;
  }
  return classifier().replace(match, priority, index) || may_rebuild();
}

std::unique_ptr<CompiledTable> CompiledTable::clone() const {
  std::unique_ptr<Classifier> content = classifier().clone();
  if (content == nullptr) return nullptr;
  auto made = std::make_unique<CompiledTable>(defer_, rules_, miss_, rebuild_limit_);
  delete made->current_.exchange(content.release(), std::memory_order_acq_rel);
  made->plan_ = plan_;
  made->peak_size_ = peak_size_;
  made->planned_masks_ = planned_masks_;
  made->planned_size_ = planned_size_;
  made->rebuilds_ = rebuilds_;
  return made;
}

void CompiledTable::rebuild() {
  std::vector<RuleRef> rules;
  rules_([&rules](const Match& match, uint16_t priority, uint32_t index) {
    rules.push_back({&match, priority, index});
  });
  std::unique_ptr<Classifier> built = build(rules, defer_, plan_);
  if (!plan_.default_rule.has_value()) built->set_default(miss_);
  ++rebuilds_;
  peak_size_ = built->size();
  planned_masks_ = built->masks();
  planned_size_ = built->size();
  Classifier* old = current_.exchange(built.release(), std::memory_order_acq_rel);
  defer_([old] { delete old; });
}

}  // namespace headrace::match
