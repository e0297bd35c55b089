// SPDX-License-Identifier: Apache-2.0
// The records of an LSI's groups or meters, and how changes of them become visible: staged, then
// committed with a version of the program, or aborted.
//
// put() and erase() change the records only. commit() links the states of what has changed to their
// handles (versioned.h); after the program of that version is published, retire() gives up, a grace
// period later, what has been replaced. abort() makes the records what they were: with the very
// states and counters, which went on counting, since workers never left them.
//
// Thread safety: control thread only.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "pipeline/program/counters.h"
#include "pipeline/program/versioned.h"
#include "pipeline/terms/reclaimer.h"

namespace headrace::pipeline {

/// `Entry` has `std::shared_ptr<State> program` and `std::vector<CounterIndex> counters() const`.
template <typename Entry, typename State, typename Handle>
class StagedMap {
 public:
  StagedMap(CounterSpace& counters, Reclaimer& reclaimer)
      : counters_(counters), reclaimer_(reclaimer) {}

  [[nodiscard]] const std::map<uint32_t, Entry>& entries() const { return entries_; }
  [[nodiscard]] const Entry* find(uint32_t id) const {
    const auto found = entries_.find(id);
    return found == entries_.end() ? nullptr : &found->second;
  }
  /// The handle of an entry that exists, or null.
  [[nodiscard]] const Handle* handle(uint32_t id) const {
    return entries_.contains(id) ? &handles_.at(id)->handle : nullptr;
  }

  /// Adds or replaces. The entry's counters are its own, but for those that it has of the one that
  /// it replaces.
  void put(uint32_t id, Entry entry) {
    note(id);
    std::unique_ptr<Owned>& owned = handles_[id];
    if (owned == nullptr) owned = std::make_unique<Owned>();
    const auto found = entries_.find(id);
    if (found == entries_.end()) {
      entries_.emplace(id, std::move(entry));
      return;
    }
    const Entry old = std::exchange(found->second, std::move(entry));
    release_unseen(id, old);
  }
  void erase(uint32_t id) {
    const auto found = entries_.find(id);
    if (found == entries_.end()) return;
    note(id);
    const Entry old = std::move(found->second);
    entries_.erase(found);
    release_unseen(id, old);
  }

  /// True if commit() has something to do.
  [[nodiscard]] bool changed() const { return !before_.empty(); }

  /// What has changed goes with programs of version `since` and later.
  void commit(uint64_t since) {
    for (auto& [id, before] : before_) {
      const Entry* now = find(id);
      if (now == nullptr && !before) continue;  // it came and went
      if (before) {
        const std::vector<CounterIndex> gone = without(before->counters(), now, nullptr);
        retired_counters_.insert(retired_counters_.end(), gone.begin(), gone.end());
      }
      Owned& owned = *handles_.at(id);
      std::shared_ptr<State> state = now != nullptr ? now->program : std::make_shared<State>();
      state->removed = now == nullptr;
      state->since = since;
      state->before = owned.handle.newest();
      owned.handle.set(state.get());
      retired_.push_back(std::exchange(owned.newest, std::move(state)));
    }
    before_.clear();
  }

  /// Takes back all since the last commit().
  void abort() {
    for (auto& [id, before] : before_) {
      if (const Entry* now = find(id))
        release(without(now->counters(), before ? &*before : nullptr, nullptr));
      entries_.erase(id);
      if (before) entries_.emplace(id, std::move(*before));
    }
    before_.clear();
  }

  /// The program of the committed version has been published.
  void retire() {
    if (retired_.empty()) return;
    reclaimer_.defer([this, states = std::exchange(retired_, {}),
                      counters = std::exchange(retired_counters_, {})] { release(counters); });
  }

 private:
  struct Owned {
    Handle handle;
    std::shared_ptr<State> newest;  ///< what the handle leads to
  };

  void note(uint32_t id) {
    const Entry* now = find(id);
    before_.emplace(id, now == nullptr ? std::nullopt : std::optional<Entry>(*now));
  }
  /// `old` is no longer in the records: if no worker can have seen it, its counters are free.
  void release_unseen(uint32_t id, const Entry& old) {
    const std::optional<Entry>& before = before_.at(id);
    release(without(old.counters(), find(id), before ? &*before : nullptr));
  }
  static std::vector<CounterIndex> without(std::vector<CounterIndex> counters, const Entry* first,
                                           const Entry* second) {
    for (const Entry* each : {first, second}) {
      if (each == nullptr) continue;
      const std::vector<CounterIndex> kept = each->counters();
      std::erase_if(counters, [&](CounterIndex index) {
        return std::find(kept.begin(), kept.end(), index) != kept.end();
      });
    }
    return counters;
  }
  void release(const std::vector<CounterIndex>& counters) {
    for (const CounterIndex index : counters) counters_.release(index);
  }

  CounterSpace& counters_;
  Reclaimer& reclaimer_;
  std::map<uint32_t, Entry> entries_;
  std::map<uint32_t, std::unique_ptr<Owned>> handles_;
  std::map<uint32_t, std::optional<Entry>> before_;  ///< what has changed, as workers have it
  std::vector<std::shared_ptr<State>> retired_;
  std::vector<CounterIndex> retired_counters_;
};

}  // namespace headrace::pipeline
