// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/ownership.h"

#include <algorithm>
#include <utility>

namespace headrace::runtime {

OwnershipTable::OwnershipTable(pipeline::Reclaimer& reclaimer, std::function<void()> publish)
    : reclaimer_(reclaimer),
      publish_(std::move(publish)),
      self_(std::make_shared<OwnershipTable*>(this)) {}

void OwnershipTable::assign(std::span<const Grant> grants) {
  for (auto& [what, row] : rows_) {
    row.removed = true;
    row.wanted.reset();
  }
  for (const Grant& grant : grants) {
    Row& row = rows_[grant.what];
    row.removed = false;
    row.wanted = grant.worker;
  }
  const uint64_t period = period_ + 1;
  bool any_withdrawn = false;
  for (auto at = rows_.begin(); at != rows_.end();) {
    Row& row = at->second;
    if (row.owner && row.owner != row.wanted) {
      row.owner.reset();
      row.period = period;
      any_withdrawn = true;
    }
    if (!row.period) row.owner = row.wanted;
    at = row.removed && !row.period ? rows_.erase(at) : std::next(at);
  }
  publish_();
  if (!any_withdrawn) return;
  period_ = period;
  // After publish_(): the grace period must begin when no plan names the rows any more.
  reclaimer_.defer([weak = std::weak_ptr(self_), period] {
    if (const auto self = weak.lock()) (*self)->end_period(period);
  });
}

void OwnershipTable::end_period(uint64_t period) {
  bool any_granted = false;
  for (auto at = rows_.begin(); at != rows_.end();) {
    Row& row = at->second;
    if (row.period && *row.period <= period) {
      row.period.reset();
      row.owner = row.wanted;
      any_granted |= row.owner.has_value();
    }
    at = row.removed && !row.period ? rows_.erase(at) : std::next(at);
  }
  if (any_granted) publish_();
}

std::optional<unsigned> OwnershipTable::owner(const Owned& what) const {
  const auto found = rows_.find(what);
  return found == rows_.end() ? std::nullopt : found->second.owner;
}

void OwnershipTable::worker_ended(unsigned worker) {
  for (auto& [what, row] : rows_) {
    if (row.owner == worker) row.owner.reset();
    // Another worker may get this number: it is not meant.
    if (row.wanted == worker) row.wanted.reset();
  }
}

size_t OwnershipTable::withdrawn() const {
  return static_cast<size_t>(
      std::ranges::count_if(rows_, [](const auto& row) { return row.second.period.has_value(); }));
}

}  // namespace headrace::runtime
