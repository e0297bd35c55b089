// SPDX-License-Identifier: Apache-2.0
// How packets go through groups (section 5.6).
#include "packet/bytes.h"
#include "pipeline/execute/action_runner.h"
#include "pipeline/terms/limits.h"

namespace headrace::pipeline {
namespace {

constexpr uint64_t mix(uint64_t hash, uint64_t bits) {
  hash = (hash ^ bits) * 0x9e3779b97f4a7c15ull;
  return hash ^ hash >> 32;
}

}  // namespace

uint64_t flow_hash64(const rte_mbuf* packet, const packet::ParsedPacket& parsed) noexcept {
  const uint8_t* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
  if (packet->data_len < 14) return 0;
  uint64_t hash = parsed.ip_proto;
  if (parsed.has(packet::kIpv4)) {
    hash = mix(hash, packet::load_raw64(frame + parsed.l3 + 12));
  } else if (parsed.has(packet::kIpv6)) {
    for (size_t i = 0; i < 32; i += 8)
      hash = mix(hash, packet::load_raw64(frame + parsed.l3 + 8 + i));
  } else if (parsed.has(packet::kArp)) {
    hash = mix(packet::load_raw64(frame), packet::load_raw32(frame + 8));
    const uint64_t sender = packet::load_raw32(frame + parsed.l3 + 14);
    hash = mix(hash, sender << 32 | packet::load_raw32(frame + parsed.l3 + 24));
  } else {
    hash = mix(packet::load_raw64(frame), packet::load_raw32(frame + 8));
    hash = mix(hash, parsed.eth_type);
  }
  const bool ports =
      parsed.l4 != 0 && !parsed.has(packet::kFragment) &&
      (parsed.ip_proto == packet::kProtoTcp || parsed.ip_proto == packet::kProtoUdp ||
       parsed.ip_proto == packet::kProtoSctp);
  if (ports) hash = mix(hash, packet::load_raw32(frame + parsed.l4));
  return mix(hash, 0);
}

uint64_t select_hash(const rte_mbuf* packet, uint64_t flow_hash64) noexcept {
  const uint8_t* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
  if (packet->data_len < 14) return flow_hash64;
  return mix(mix(flow_hash64, packet::load_raw64(frame)), packet::load_raw32(frame + 8));
}

bool is_live(const BucketProgram& bucket, unsigned nesting) noexcept {
  if (bucket.watch_port == nullptr && bucket.watch_group == nullptr) return true;
  if (bucket.watch_port != nullptr) {
    const Port* port = bucket.watch_port->port.load(std::memory_order_acquire);
    if (port != nullptr && port->live.load(std::memory_order_relaxed)) return true;
  }
  if (bucket.watch_group != nullptr && nesting < kMaxGroupDepth) {
    const GroupProgram* group = bucket.watch_group->group.load(std::memory_order_acquire);
    if (group == nullptr) return false;
    for (const BucketProgram& inner : group->buckets) {
      if (is_live(inner, nesting + 1)) return true;
    }
  }
  return false;
}

const BucketProgram* select_bucket(const GroupProgram& group, uint32_t hash) noexcept {
  const size_t places = group.bucket_table.size();
  if (places == 0) return nullptr;
  size_t place = uint64_t{hash} * places >> 32;
  const BucketProgram* bucket = &group.buckets[group.bucket_table[place]];
  if (!group.watched || is_live(*bucket, 0)) [[likely]]
    return bucket;
  // Flows of a dead bucket spread over the living ones; the others' flows stay where they are.
  for (size_t tried = 0; tried < places; ++tried) {
    hash = static_cast<uint32_t>(mix(hash, tried + 1));
    bucket = &group.buckets[group.bucket_table[uint64_t{hash} * places >> 32]];
    if (is_live(*bucket, 0)) return bucket;
  }
  for (const BucketProgram& any : group.buckets) {
    if (any.weight != 0 && is_live(any, 0)) return &any;
  }
  return nullptr;
}

const BucketProgram* select_stateful(const GroupProgram& group, uint64_t hash,
                                     uint32_t tick) noexcept {
  if (const std::optional<uint16_t> id = group.memory->find(hash, tick)) {
    const uint16_t index = *id < group.index_of_id.size() ? group.index_of_id[*id] : kNoBucket;
    if (index != kNoBucket && is_live(group.buckets[index], 0)) return &group.buckets[index];
  }
  const BucketProgram* bucket = select_bucket(group, static_cast<uint32_t>(hash >> 32));
  if (bucket != nullptr) group.memory->remember(hash, bucket->id, tick);
  return bucket;
}

const BucketProgram* ActionRunner::choose(const GroupProgram& group, uint64_t hash) const noexcept {
  switch (group.type) {
    case GroupMod::Type::select:
      if (group.memory != nullptr) {
        return select_stateful(group, hash, static_cast<uint32_t>(tsc_ >> kSelectTickShift));
      }
      return select_bucket(group, static_cast<uint32_t>(hash >> 32));
    case GroupMod::Type::indirect:
      return &group.buckets.front();
    case GroupMod::Type::fast_failover:
      for (const BucketProgram& each : group.buckets) {
        if (is_live(each, 0)) return &each;
      }
      break;
    case GroupMod::Type::all:
      break;
  }
  return nullptr;
}

void ActionRunner::group(const BurstContext& burst, PacketView view, const GroupHandle& handle,
                         const RuleBody& rule, bool consume, unsigned nesting) noexcept {
  any_output_ = true;
  const GroupProgram* group = handle.group.load(std::memory_order_acquire);
  DropReason refusal = DropReason::none;
  const BucketProgram* bucket = nullptr;
  if (group == nullptr) {
    refusal = DropReason::group_missing;
  } else if (nesting >= kMaxGroupDepth) {
    refusal = DropReason::group_loop;
  } else {
    add(burst.counts[group->counter], 1, view.packet->pkt_len);
    switch (group->type) {
      case GroupMod::Type::all:
        for (const BucketProgram& each : group->buckets) {
          const bool last = &each == &group->buckets.back();
          run_bucket(burst, view, each, rule, consume && last, nesting);
        }
        if (group->buckets.empty()) refusal = DropReason::no_output;
        if (refusal == DropReason::none) return;
        break;
      case GroupMod::Type::select:
        bucket = choose(*group, select_hash(view.packet, flow_hash64(view.packet, *view.parsed)));
        break;
      case GroupMod::Type::indirect:
      case GroupMod::Type::fast_failover:
        bucket = choose(*group, 0);
        break;
    }
    if (bucket == nullptr && refusal == DropReason::none) refusal = DropReason::no_live_bucket;
  }
  if (refusal != DropReason::none) {
    add(burst.worker->drops[static_cast<size_t>(refusal)], 1);
    if (consume) tx_.free(view.packet);
    return;
  }
  run_bucket(burst, view, *bucket, rule, consume, nesting);
}

void ActionRunner::run_bucket(const BurstContext& burst, PacketView view,
                              const BucketProgram& bucket, const RuleBody& rule, bool consume,
                              unsigned nesting) noexcept {
  add(burst.counts[bucket.rule.counter], 1, view.packet->pkt_len);
  if (consume) {
    if (run_ops(burst, view, bucket.ops, rule, true, nesting + 1) == Outcome::kept) {
      drop(burst, view.packet, DropReason::no_output);
    }
    return;
  }
  // The bucket works on a packet of its own; the fields are its own, too.
  rte_mbuf* packet = copy(burst, view.packet);
  if (packet == nullptr) return;
  match::FlowKey values = *view.values;
  packet::ParsedPacket parsed = *view.parsed;
  if (run_ops(burst, {packet, &values, &parsed}, bucket.ops, rule, true, nesting + 1) ==
      Outcome::kept) {
    drop(burst, packet, DropReason::no_output);
  }
}

}  // namespace headrace::pipeline
