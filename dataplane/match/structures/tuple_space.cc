// SPDX-License-Identifier: Apache-2.0
#include "match/structures/tuple_space.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "match/structures/classifier_kind.h"

namespace headrace::match {

namespace {

/// Tuples that are searched without asking the filter: what is mostly found there needs none.
constexpr size_t kPlain = 1;  // see lookup()
/// From this many tuples a filter is kept.
constexpr size_t kFiltered = 4;
/// So many candidates of a burst are put in order; for more, the list is gone through.
constexpr size_t kFewTuples = 8;

/// Moves those packets to the front that a rule of `max_priority` would still better; how many.
inline size_t keep_open(std::span<uint8_t> searching, const Ranked* best, uint16_t max_priority) {
  const Ranked ceiling = ranked(max_priority, 0);
  size_t left = 0;
  for (const uint8_t slot : searching) {
    searching[left] = slot;
    left += best[slot] < ceiling ? 1 : 0;
  }
  return left;
}

}  // namespace

TupleSpace::TupleSpace(Defer defer) : defer_(std::move(defer)) {
  publish();
}

TupleSpace::~TupleSpace() {
  delete list_.load(std::memory_order_relaxed);
}

void TupleSpace::lookup(const FlowKey* burst, std::span<const uint8_t> active, uint32_t* results,
                        WordSet /*differ*/) const noexcept {
  const List& list = *list_.load(std::memory_order_acquire);
  const uint32_t otherwise = default_index();
  const size_t n = active.size();
  if (list.tuples.empty()) {
    std::fill_n(results, n, otherwise);
    return;
  }
  // The first tuple settles most bursts: it is searched for all, into places of their own.
  Ranked first[kBurst];
  list.tuples[0].table->find_all(burst, active, first);
  size_t unsettled = 0;
  if (list.tuples.size() > 1) {
    const Ranked ceiling = ranked(list.tuples[1].max_priority, 0);
    for (size_t i = 0; i < n; ++i) unsettled += first[i] < ceiling ? 1 : 0;
    if (unsettled != 0) search_others(list, burst, active, first, ceiling);
  }
  for (size_t i = 0; i < n; ++i) {
    const uint32_t all_if_none = first[i] == 0 ? ~0u : 0;
    results[i] = index_of(first[i]) | (otherwise & all_if_none);
  }
}

/// Betters results below `ceiling` by what the tuples behind the first hold.
void TupleSpace::search_others(const List& list, const FlowKey* burst,
                               std::span<const uint8_t> active, Ranked* results,
                               Ranked ceiling) noexcept {
  Ranked best[kBurst];  // by slot, of those that are searched for
  uint8_t searching[kBurst];
  uint8_t positions[kBurst];
  size_t open = 0;
  for (size_t i = 0; i < active.size(); ++i) {
    if (results[i] >= ceiling) continue;
    best[active[i]] = results[i];
    searching[open] = active[i];
    positions[open++] = static_cast<uint8_t>(i);
  }
  size_t count = open;
  if (list.filter != nullptr) {
    search_filtered(list, kPlain, burst, {searching, count}, best);
  } else {
    for (size_t at = 1; at < list.tuples.size(); ++at) {
      const Listed& tuple = list.tuples[at];
      count = keep_open({searching, count}, best, tuple.max_priority);
      if (count == 0) break;
      tuple.table->improve(burst, {searching, count}, best);
    }
  }
  for (size_t k = 0; k < open; ++k) results[positions[k]] = best[active[positions[k]]];
}

/// The places of a set of tuples in the list, in order, if they are few; else a greater number.
size_t TupleSpace::places_of(const List& list, const TupleFilter::Set& set,
                             std::span<uint16_t> places) noexcept {
  if (list.unnumbered != 0) return places.size() + 1;
  size_t count = 0;
  for (size_t w = 0; w < list.filter->words(); ++w) {
    for (uint64_t bits = set[w]; bits != 0; bits &= bits - 1) {
      const size_t number = w * 64 + static_cast<size_t>(std::countr_zero(bits));
      // A number that no listed tuple has any more, or not yet.
      if (number >= list.places.size() || list.places[number] == kUnnumbered) continue;
      if (count == places.size()) return count + 1;
      size_t at = count++;
      for (; at > 0 && places[at - 1] > list.places[number]; --at) places[at] = places[at - 1];
      places[at] = list.places[number];
    }
  }
  return count;
}

/// Searches the tuples from `first` on that the filter does not rule out.
void TupleSpace::search_filtered(const List& list, size_t first, const FlowKey* burst,
                                 std::span<uint8_t> searching, Ranked* best) noexcept {
  std::array<TupleFilter::Set, kBurst> wanted;  // by slot
  TupleFilter::Set any;
  any.fill(0);
  const size_t words = list.filter->words();
  uint64_t some = list.unnumbered;
  for (const uint8_t slot : searching) {
    list.filter->candidates(burst[slot], wanted[slot]);
    for (size_t w = 0; w < words; ++w) some |= any[w] |= wanted[slot][w];
  }
  if (some == 0) return;
  std::array<uint16_t, kFewTuples> places;
  const size_t few = places_of(list, any, places);
  const size_t end = few <= kFewTuples ? few : list.tuples.size();
  for (size_t i = few <= kFewTuples ? 0 : first; i < end; ++i) {
    const size_t at = few <= kFewTuples ? places[i] : i;
    if (at < first) continue;
    const Listed& tuple = list.tuples[at];
    const bool numbered = tuple.number != kUnnumbered;
    const size_t word = numbered ? tuple.number / 64 : 0;
    const unsigned shift = tuple.number % 64;
    if (numbered && (any[word] >> shift & 1) == 0) continue;
    const Ranked ceiling = ranked(tuple.max_priority, 0);
    uint8_t chosen[kBurst];
    size_t count = 0;
    size_t left = 0;
    for (const uint8_t slot : searching) {
      const bool open = best[slot] < ceiling;
      searching[left] = slot;
      left += open ? 1 : 0;
      chosen[count] = slot;
      count += open && (!numbered || (wanted[slot][word] >> shift & 1) != 0) ? 1 : 0;
    }
    searching = searching.first(left);
    if (left == 0) return;
    if (count != 0) tuple.table->improve(burst, {chosen, count}, best);
  }
}

std::vector<TupleSpace::Tuple>::iterator TupleSpace::find(const Match& match) {
  return std::find_if(tuples_.begin(), tuples_.end(),
                      [&](const Tuple& tuple) { return tuple.table->same_mask(match); });
}

/// Makes the filter know a new tuple; builds it anew if it has no number left.
void TupleSpace::number(Tuple& tuple) {
  if (filter_ != nullptr && tuples_.size() < 2 * filter_->chosen_for()) {
    if (const auto number = filter_->add(tuple.profile)) {
      tuple.number = *number;
      return;
    }
    if (tuples_.size() > TupleFilter::kMaxTuples) return;  // full, and not of tuples that went
  }
  if (tuples_.size() < kFiltered) return;
  std::vector<const TupleProfile*> profiles;
  for (const Tuple& each : tuples_) profiles.push_back(&each.profile);
  filter_ = std::make_shared<TupleFilter>(profiles);
  for (size_t i = 0; i < tuples_.size(); ++i) {
    tuples_[i].number = i < TupleFilter::kMaxTuples ? static_cast<uint16_t>(i) : kUnnumbered;
  }
}

void TupleSpace::publish() {
  auto list = std::make_unique<List>();
  for (const Tuple& tuple : tuples_) {
    list->tuples.push_back({tuple.table.get(), tuple.max_priority(), tuple.number});
  }
  std::stable_sort(list->tuples.begin(), list->tuples.end(), [](const Listed& a, const Listed& b) {
    return a.max_priority > b.max_priority;
  });
  if (list->tuples.size() > kPlain) list->filter = filter_;
  for (size_t at = 0; at < list->tuples.size(); ++at) {
    const uint16_t number = list->tuples[at].number;
    if (number == kUnnumbered) {
      ++list->unnumbered;
      continue;
    }
    if (number >= list->places.size()) list->places.resize(number + 1, kUnnumbered);
    list->places[number] = static_cast<uint16_t>(at);
  }
  List* old = list_.exchange(list.release(), std::memory_order_acq_rel);
  if (old != nullptr) defer_([old] { delete old; });
}

bool TupleSpace::insert(const Match& match, uint16_t priority, uint32_t index) {
  if (index >= kIndexLimit) return false;
  auto tuple = find(match);
  if (tuple == tuples_.end()) {
    tuples_.push_back({std::make_unique<HashTable>(match.mask, 0, defer_),
                       TupleProfile(match.mask),
                       kUnnumbered,
                       {}});
    tuple = tuples_.end() - 1;
    tuple->profile.add(match.value);
    number(*tuple);
  } else if (tuple->profile.add(match.value) && tuple->number != kUnnumbered) {
    filter_->widen(tuple->number, tuple->profile);
  }
  [[maybe_unused]] const bool taken = tuple->table->insert(match, priority, index);
  assert(taken);
  const bool raised = tuple->priorities.empty() || priority > tuple->max_priority();
  ++tuple->priorities[priority];
  ++size_;
  if (raised) publish();
  return true;
}

bool TupleSpace::erase(const Match& match, uint16_t priority) {
  const auto tuple = find(match);
  if (tuple == tuples_.end() || !tuple->table->erase(match, priority)) return false;
  --size_;
  const auto count = tuple->priorities.find(priority);
  const bool was_max = priority == tuple->max_priority();
  if (--count->second != 0) return true;
  tuple->priorities.erase(count);
  if (!tuple->priorities.empty()) {
    if (was_max) publish();
    return true;
  }
  // Readers may be in the tuple's table until the list without it has gone round.
  std::shared_ptr<HashTable> unused = std::move(tuple->table);
  tuples_.erase(tuple);
  publish();
  defer_([unused] {});
  return true;
}

bool TupleSpace::replace(const Match& match, uint16_t priority, uint32_t index) {
  const auto tuple = find(match);
  return tuple != tuples_.end() && tuple->table->replace(match, priority, index);
}

std::unique_ptr<Classifier> TupleSpace::clone() const {
  auto made = std::make_unique<TupleSpace>(defer_);
  if (filter_ != nullptr) made->filter_ = std::make_shared<TupleFilter>(*filter_);
  for (const Tuple& tuple : tuples_) {
    made->tuples_.push_back({tuple.table->copy(), tuple.profile, tuple.number, tuple.priorities});
  }
  made->size_ = size_;
  made->set_default(default_index());
  made->publish();
  return made;
}

size_t TupleSpace::memory_bytes() const {
  size_t bytes = sizeof *this + (filter_ != nullptr ? filter_->memory_bytes() : 0);
  for (const Tuple& tuple : tuples_) bytes += tuple.table->memory_bytes();
  return bytes;
}

// --- kind ---------------------------------------------------------------------------------------

namespace {

std::optional<Fit> plan_tuples(std::span<const RuleRef> rules) {
  return Fit{"rules of several masks: tuple space by priority", [rules](const Defer& defer) {
               return filled(std::make_unique<TupleSpace>(defer), rules);
             }};
}

}  // namespace

namespace kinds {
extern const ClassifierKind tuple_space;
const ClassifierKind tuple_space{"tuple-space", plan_tuples};
}  // namespace kinds

}  // namespace headrace::match
