// SPDX-License-Identifier: Apache-2.0
#include "pipeline/control/group_table.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "pipeline/control/compiler.h"
#include "pipeline/control/port_table.h"
#include "pipeline/execute/select_bucket.h"
#include "pipeline/terms/of_errors.h"

namespace headrace::pipeline {
namespace {

template <typename Visit>
void for_each_group_named(const std::vector<Bucket>& buckets, Visit&& visit) {
  for (const Bucket& bucket : buckets) {
    for (const Action& action : bucket.actions) {
      if (const auto* group = action.as<GroupAction>()) visit(group->group_id);
    }
  }
}

/// The memory that all groups of a pair share, on whatever LSI they are; gone with the last of
/// them.
std::shared_ptr<SelectMemory> memory_of_pair(uint32_t pair, uint32_t ticks) {
  static std::mutex mutex;
  static std::map<std::pair<uint32_t, uint32_t>, std::weak_ptr<SelectMemory>> memories;
  const std::scoped_lock lock(mutex);
  std::erase_if(memories, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<SelectMemory>& known = memories[{pair, ticks}];
  std::shared_ptr<SelectMemory> memory = known.lock();
  if (memory == nullptr) known = memory = std::make_shared<SelectMemory>(ticks);
  return memory;
}

}  // namespace

std::vector<uint16_t> make_bucket_table(const std::vector<Bucket>& buckets) {
  uint64_t total = 0;
  uint64_t divisor = 0;
  for (const Bucket& bucket : buckets) {
    total += bucket.weight;
    divisor = std::gcd(divisor, uint64_t{bucket.weight});
  }
  if (total == 0) return {};
  // The exact proportions if they fit; else scaled down, each living bucket keeping a place.
  const uint64_t exact = total / divisor;
  const double scale = exact <= kBucketTablePlaces
                           ? 1.0 / static_cast<double>(divisor)
                           : static_cast<double>(kBucketTablePlaces) / static_cast<double>(total);
  std::vector<uint16_t> bucket_table;
  for (size_t index = 0; index < buckets.size(); ++index) {
    if (buckets[index].weight == 0) continue;
    const auto places = std::max<size_t>(
        1, static_cast<size_t>(static_cast<double>(buckets[index].weight) * scale + 0.5));
    bucket_table.insert(bucket_table.end(), places, static_cast<uint16_t>(index));
  }
  return bucket_table;
}

std::vector<CounterIndex> GroupTable::Entry::counters() const {
  std::vector<CounterIndex> all{counter};
  for (const BucketProgram& bucket : program->buckets) all.push_back(bucket.rule.counter);
  return all;
}

bool GroupTable::leads_to(uint32_t from, uint32_t target, size_t depth) const {
  if (from == target) return true;
  const Entry* found = groups_.find(from);
  if (found == nullptr || depth > groups_.entries().size()) return false;
  bool leads = false;
  for_each_group_named(found->mod.buckets,
                       [&](uint32_t next) { leads = leads || leads_to(next, target, depth + 1); });
  return leads;
}

OfResult<> GroupTable::check(const GroupMod& mod) const {
  if (mod.group_id > kGroupMax) return tl::unexpected(of_error::kGroupInvalid);
  if (mod.buckets.size() > kMaxBuckets) return tl::unexpected(of_error::kGroupOutOfBuckets);
  if (mod.type > GroupMod::Type::fast_failover) return tl::unexpected(of_error::kGroupBadType);
  if (mod.type == GroupMod::Type::indirect && mod.buckets.size() != 1) {
    return tl::unexpected(of_error::kGroupInvalid);
  }
  for (const Bucket& bucket : mod.buckets) {
    // A field that the type does not define (section 6.5).
    if (bucket.weight != 0 && mod.type != GroupMod::Type::select) {
      return tl::unexpected(of_error::kGroupInvalid);
    }
    if (mod.type == GroupMod::Type::fast_failover && bucket.watch_port == kPortAny &&
        bucket.watch_group == kGroupAny) {
      return tl::unexpected(of_error::kGroupBadWatch);
    }
  }
  bool loop = false;
  for_each_group_named(mod.buckets,
                       [&](uint32_t next) { loop = loop || leads_to(next, mod.group_id, 0); });
  if (loop) return tl::unexpected(of_error::kGroupLoop);
  return {};
}

OfResult<std::shared_ptr<GroupProgram>> GroupTable::compile(const GroupMod& mod,
                                                            CounterIndex counter,
                                                            Resolver& resolver,
                                                            const Entry* before) {
  auto program = std::make_shared<GroupProgram>();
  program->type = mod.type;
  program->counter = counter;
  OfResult<> failed;
  SelectMemoryAction memory_wanted{};
  for (const Bucket& bucket : mod.buckets) {
    ActionList actions;
    for (const Action& action : bucket.actions) {
      const auto* memory = action.as<SelectMemoryAction>();
      if (memory == nullptr) {
        actions.push_back(action);
      } else {
        memory_wanted = *memory;
      }
    }
    OfResult<std::vector<Op>> ops = compile_actions(actions, ActionContext::bucket, resolver);
    if (!ops) {
      failed = tl::unexpected(ops.error());
      break;
    }
    BucketProgram made;
    made.weight = bucket.weight;
    if (bucket.watch_port != kPortAny && bucket.watch_port != 0) {
      made.watch_port = resolver.port_handle(bucket.watch_port);
    }
    if (bucket.watch_group != kGroupAny) {
      made.watch_group = resolver.group_handle(bucket.watch_group);
      if (made.watch_group == nullptr) {
        failed = tl::unexpected(of_error::kGroupBadWatch);
        break;
      }
    }
    const std::optional<CounterIndex> index = counters_.allocate();
    if (!index) {
      failed = tl::unexpected(of_error::kGroupOutOfBuckets);
      break;
    }
    compile_bucket(*ops, *index, made);
    program->watched |= made.watch_port != nullptr || made.watch_group != nullptr;
    program->buckets.push_back(std::move(made));
  }
  if (!failed) {
    for (const BucketProgram& bucket : program->buckets) counters_.release(bucket.rule.counter);
    return tl::unexpected(failed.error());
  }
  if (mod.type == GroupMod::Type::select) {
    program->bucket_table = make_bucket_table(mod.buckets);
    if (memory_wanted.idle_timeout != 0) give_memory(mod, *program, memory_wanted, before);
  }
  return program;
}

void GroupTable::give_memory(const GroupMod& mod, GroupProgram& program,
                             const SelectMemoryAction& wanted, const Entry* before) const {
  const auto ticks = static_cast<uint32_t>(std::clamp<uint64_t>(
      uint64_t{wanted.idle_timeout} * hz_ >> kSelectTickShift, 1, UINT16_MAX / 2));
  if (wanted.pair != 0) {
    // Bucket number n of each is the same to all of them.
    program.paired = true;
    program.memory = memory_of_pair(wanted.pair, ticks);
    for (size_t i = 0; i < mod.buckets.size(); ++i) {
      program.buckets[i].id = static_cast<uint16_t>(i);
      program.index_of_id.push_back(static_cast<uint16_t>(i));
    }
    return;
  }
  // Ids are 16 bits: after very many different buckets the memory starts anew.
  const bool keep = before != nullptr && before->program->memory != nullptr &&
                    before->program->memory->idle_ticks() == ticks &&
                    before->program->index_of_id.size() + mod.buckets.size() < kNoBucket;
  size_t next = 0;
  if (keep) {
    program.memory = before->program->memory;
    next = before->program->index_of_id.size();
  } else {
    program.memory = std::make_shared<SelectMemory>(ticks);
  }
  // A bucket is the one that it was if it does the same.
  std::vector<bool> taken(keep ? before->mod.buckets.size() : 0);
  for (size_t i = 0; i < mod.buckets.size(); ++i) {
    uint16_t id = kNoBucket;
    for (size_t old = 0; old < taken.size() && id == kNoBucket; ++old) {
      if (taken[old] || before->mod.buckets[old].actions != mod.buckets[i].actions) continue;
      taken[old] = true;
      id = before->program->buckets[old].id;
    }
    program.buckets[i].id = id == kNoBucket ? static_cast<uint16_t>(next++) : id;
  }
  program.index_of_id.assign(next, kNoBucket);
  for (size_t i = 0; i < mod.buckets.size(); ++i) {
    program.index_of_id[program.buckets[i].id] = static_cast<uint16_t>(i);
  }
}

void GroupTable::count_chained(const GroupMod& mod, int change) {
  for_each_group_named(mod.buckets, [&](uint32_t named) {
    uint32_t& count = chained_[named];
    count += static_cast<uint32_t>(change);
    if (count == 0) chained_.erase(named);
  });
}

OfResult<> GroupTable::add(const GroupMod& mod, Resolver& resolver, uint64_t now) {
  if (groups_.find(mod.group_id) != nullptr) return tl::unexpected(of_error::kGroupExists);
  if (OfResult<> checked = check(mod); !checked) return checked;
  if (groups_.entries().size() >= max_groups_) {
    return tl::unexpected(of_error::kGroupOutOfGroups);
  }
  const std::optional<CounterIndex> counter = counters_.allocate();
  if (!counter) return tl::unexpected(of_error::kGroupOutOfGroups);
  auto program = compile(mod, *counter, resolver, nullptr);
  if (!program) {
    counters_.release(*counter);
    return tl::unexpected(program.error());
  }
  count_chained(mod, 1);
  groups_.put(mod.group_id, Entry{mod, std::move(*program), *counter, now});
  return {};
}

OfResult<> GroupTable::modify(const GroupMod& mod, Resolver& resolver) {
  const Entry* found = groups_.find(mod.group_id);
  if (found == nullptr) return tl::unexpected(of_error::kGroupUnknown);
  if (OfResult<> checked = check(mod); !checked) return checked;
  auto program = compile(mod, found->counter, resolver, found);
  if (!program) return tl::unexpected(program.error());
  count_chained(found->mod, -1);
  count_chained(mod, 1);
  groups_.put(mod.group_id, Entry{mod, std::move(*program), found->counter, found->created});
  return {};
}

OfResult<> GroupTable::remove(uint32_t group_id) {
  if (group_id == kGroupAll) {
    for (const uint32_t id : ids()) groups_.erase(id);
    chained_.clear();
    return {};
  }
  const Entry* found = groups_.find(group_id);
  if (found == nullptr) return {};
  if (chained_.contains(group_id)) return tl::unexpected(of_error::kGroupChained);
  count_chained(found->mod, -1);
  groups_.erase(group_id);
  return {};
}

void GroupTable::abort() {
  groups_.abort();
  chained_.clear();
  for (const auto& [id, entry] : groups_.entries()) count_chained(entry.mod, 1);
}

const GroupHandle* GroupTable::handle(uint32_t group_id) const {
  return groups_.handle(group_id);
}

std::vector<uint32_t> GroupTable::ids() const {
  std::vector<uint32_t> all;
  for (const auto& [id, entry] : groups_.entries()) all.push_back(id);
  return all;
}

std::vector<GroupDesc> GroupTable::descs() const {
  std::vector<GroupDesc> all;
  for (const auto& [id, entry] : groups_.entries())
    all.push_back({id, entry.mod.type, entry.mod.buckets});
  return all;
}

std::optional<GroupStats> GroupTable::stats(uint32_t group_id, uint64_t now) const {
  const Entry* found = groups_.find(group_id);
  if (found == nullptr) return std::nullopt;
  GroupStats stats;
  stats.group_id = group_id;
  const Count total = counters_.sum(found->counter);
  stats.packets = total.packets;
  stats.bytes = total.bytes;
  stats.duration = to_duration(now - found->created, hz_);
  for (const BucketProgram& bucket : found->program->buckets) {
    const Count count = counters_.sum(bucket.rule.counter);
    stats.buckets.push_back({count.packets, count.bytes});
  }
  const auto chained = chained_.find(group_id);
  stats.references = chained == chained_.end() ? 0 : chained->second;
  return stats;
}

const GroupMod* GroupTable::config(uint32_t group_id) const {
  const Entry* found = groups_.find(group_id);
  return found == nullptr ? nullptr : &found->mod;
}

}  // namespace headrace::pipeline
