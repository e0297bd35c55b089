// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/select_bucket.h"

#include "pipeline/execute/flow_hash.h"
#include "pipeline/terms/limits.h"

namespace headrace::pipeline {

bool is_live(const BucketProgram& bucket, uint64_t version, unsigned nesting) noexcept {
  if (bucket.watch_port == nullptr && bucket.watch_group == nullptr) return true;
  if (bucket.watch_port != nullptr) {
    const Port* port = bucket.watch_port->port.load(std::memory_order_acquire);
    if (port != nullptr && port->live.load(std::memory_order_relaxed)) return true;
  }
  if (bucket.watch_group != nullptr && nesting < kMaxGroupDepth) {
    const GroupProgram* group = bucket.watch_group->at(version);
    if (group == nullptr) return false;
    for (const BucketProgram& inner : group->buckets) {
      if (is_live(inner, version, nesting + 1)) return true;
    }
  }
  return false;
}

const BucketProgram* select_bucket(const GroupProgram& group, uint64_t version,
                                   uint32_t hash) noexcept {
  const size_t places = group.bucket_table.size();
  if (places == 0) return nullptr;
  const BucketProgram* bucket = &bucket_at(group, hash);
  if (!group.watched || is_live(*bucket, version)) [[likely]]
    return bucket;
  // Flows of a dead bucket spread over the living ones; the others' flows stay where they are.
  for (size_t tried = 0; tried < places; ++tried) {
    hash = static_cast<uint32_t>(mix_hash(hash, tried + 1));
    bucket = &bucket_at(group, hash);
    if (is_live(*bucket, version)) return bucket;
  }
  for (const BucketProgram& any : group.buckets) {
    if (any.weight != 0 && is_live(any, version)) return &any;
  }
  return nullptr;
}

const BucketProgram* select_stateful(const GroupProgram& group, uint64_t version, uint64_t hash,
                                     uint32_t tick) noexcept {
  if (const std::optional<uint16_t> id = group.memory->find(hash, tick)) {
    const uint16_t index = *id < group.index_of_id.size() ? group.index_of_id[*id] : kNoBucket;
    if (index != kNoBucket && is_live(group.buckets[index], version)) return &group.buckets[index];
    // Another group of the pair may have the bucket already, or still: what it has noted stays.
    if (group.paired) return select_bucket(group, version, static_cast<uint32_t>(hash >> 32));
  }
  const BucketProgram* bucket = select_bucket(group, version, static_cast<uint32_t>(hash >> 32));
  if (bucket != nullptr) group.memory->remember(hash, bucket->id, tick);
  return bucket;
}

const BucketProgram* choose_bucket(const GroupProgram& group, uint64_t version, uint64_t hash,
                                   uint64_t tsc) noexcept {
  switch (group.type) {
    case GroupMod::Type::select:
      if (group.memory != nullptr) {
        return select_stateful(group, version, hash,
                               static_cast<uint32_t>(tsc >> kSelectTickShift));
      }
      return select_bucket(group, version, static_cast<uint32_t>(hash >> 32));
    case GroupMod::Type::indirect:
      return &group.buckets.front();
    case GroupMod::Type::fast_failover:
      for (const BucketProgram& each : group.buckets) {
        if (is_live(each, version)) return &each;
      }
      break;
    case GroupMod::Type::all:
      break;
  }
  return nullptr;
}

}  // namespace headrace::pipeline
