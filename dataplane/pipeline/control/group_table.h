// SPDX-License-Identifier: Apache-2.0
// The groups of one LSI: OFPT_GROUP_MOD, its checks and its statistics. Changes are staged until
// commit() (staged_map.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "pipeline/control/compiler.h"
#include "pipeline/control/staged_map.h"
#include "pipeline/program/handles.h"
#include "pipeline/terms/reclaimer.h"
#include "pipeline/terms/stats.h"

namespace headrace::pipeline {

inline constexpr size_t kMaxBuckets = 1024;

/// The bucket_table of a select group has at most this many places, so weights are honoured to
/// about one part in as many; smaller weights are exact.
inline constexpr size_t kBucketTablePlaces = 4096;

class GroupTable {
 public:
  GroupTable(CounterSpace& counters, Reclaimer& reclaimer, uint64_t hz, uint32_t max_groups)
      : counters_(counters), hz_(hz), max_groups_(max_groups), groups_(counters, reclaimer) {}

  OfResult<> add(const GroupMod& mod, Resolver& resolver, uint64_t now);
  OfResult<> modify(const GroupMod& mod, Resolver& resolver);
  /// An unknown group is no error (section 6.5); kGroupAll: all. A group that another group's
  /// bucket names can't go alone: OFPGMFC_CHAINED_GROUP.
  OfResult<> remove(uint32_t group_id);

  // See StagedMap.
  [[nodiscard]] bool changed() const { return groups_.changed(); }
  void commit(uint64_t since) { groups_.commit(since); }
  void abort();
  void retire() { groups_.retire(); }

  /// The handle of a group that exists, or null.
  [[nodiscard]] const GroupHandle* handle(uint32_t group_id) const;
  [[nodiscard]] std::vector<uint32_t> ids() const;
  [[nodiscard]] std::vector<GroupDesc> descs() const;
  /// Of a group, or nothing if it is unknown. `references` counts other groups only; flows are the
  /// caller's to add.
  [[nodiscard]] std::optional<GroupStats> stats(uint32_t group_id, uint64_t now) const;
  /// What the group was made from; null if unknown.
  [[nodiscard]] const GroupMod* config(uint32_t group_id) const;

 private:
  struct Entry {
    GroupMod mod;
    std::shared_ptr<GroupProgram> program;
    CounterIndex counter{0};
    uint64_t created{0};
    /// The group's and its buckets'.
    [[nodiscard]] std::vector<CounterIndex> counters() const;
  };

  [[nodiscard]] OfResult<> check(const GroupMod& mod) const;
  /// True if `from` is `target` or leads to it through buckets.
  [[nodiscard]] bool leads_to(uint32_t from, uint32_t target, size_t depth) const;
  /// `before`: the entry that the group has, or null.
  OfResult<std::shared_ptr<GroupProgram>> compile(const GroupMod& mod, CounterIndex counter,
                                                  Resolver& resolver, const Entry* before);
  /// Gives a stateful group its memory, and its buckets the ids that they had.
  void give_memory(const GroupMod& mod, GroupProgram& program, const SelectMemoryAction& wanted,
                   const Entry* before) const;
  void count_chained(const GroupMod& mod, int change);

  CounterSpace& counters_;
  uint64_t hz_;
  uint32_t max_groups_;
  StagedMap<Entry, GroupProgram, GroupHandle> groups_;
  std::map<uint32_t, uint32_t> chained_;  ///< buckets that name a group
};

/// Bucket indices for a select group, as often as their weights say.
[[nodiscard]] std::vector<uint16_t> make_bucket_table(const std::vector<Bucket>& buckets);

}  // namespace headrace::pipeline
