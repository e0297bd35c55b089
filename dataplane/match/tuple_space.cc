// SPDX-License-Identifier: Apache-2.0
#include "match/tuple_space.h"

#include <algorithm>
#include <cassert>

namespace headrace::match {

TupleSpace::TupleSpace(Defer defer) : defer_(std::move(defer)) {
  publish();
}

TupleSpace::~TupleSpace() {
  delete list_.load(std::memory_order_relaxed);
}

void TupleSpace::lookup(const FieldValues* burst, std::span<const uint8_t> active,
                        uint32_t* results) const noexcept {
  Ranked best[kBurst];  // by slot
  uint8_t searching[kBurst];
  size_t count = active.size();
  for (size_t i = 0; i < count; ++i) {
    searching[i] = active[i];
    best[active[i]] = 0;
  }
  for (const Listed& tuple : *list_.load(std::memory_order_acquire)) {
    const Ranked ceiling = ranked(tuple.max_priority, 0);
    size_t left = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint8_t slot = searching[i];
      searching[left] = slot;
      left += best[slot] < ceiling ? 1 : 0;
    }
    count = left;
    if (count == 0) break;
    tuple.table->improve(burst, {searching, count}, best);
  }
  const uint32_t otherwise = default_index();
  for (size_t i = 0; i < active.size(); ++i) {
    const Ranked result = best[active[i]];
    results[i] = result != 0 ? index_of(result) : otherwise;
  }
}

std::vector<TupleSpace::Tuple>::iterator TupleSpace::find(const Match& match) {
  return std::find_if(tuples_.begin(), tuples_.end(),
                      [&](const Tuple& tuple) { return tuple.table->same_mask(match); });
}

void TupleSpace::publish() {
  auto list = std::make_unique<List>();
  for (const Tuple& tuple : tuples_) list->push_back({tuple.table.get(), tuple.max_priority()});
  std::stable_sort(list->begin(), list->end(), [](const Listed& a, const Listed& b) {
    return a.max_priority > b.max_priority;
  });
  List* old = list_.exchange(list.release(), std::memory_order_acq_rel);
  if (old != nullptr) defer_([old] { delete old; });
}

bool TupleSpace::insert(const Match& match, uint16_t priority, uint32_t index) {
  if (index >= kIndexLimit) return false;
  auto tuple = find(match);
  if (tuple == tuples_.end()) {
    tuples_.push_back({std::make_unique<HashTable>(match.mask, 0, defer_), {}});
    tuple = tuples_.end() - 1;
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

size_t TupleSpace::memory_bytes() const {
  size_t bytes = sizeof *this;
  for (const Tuple& tuple : tuples_) bytes += tuple.table->memory_bytes();
  return bytes;
}

}  // namespace headrace::match
