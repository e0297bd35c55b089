// SPDX-License-Identifier: Apache-2.0
// OFPAT_GROUP: through a bucket of a group, or through all of them (section 5.6).
//
// For the packets of a burst step by step: groups, then buckets, then what the buckets do, so that
// cache misses overlap. A bucket of the forward class (rule.h) is a rule to the packet, so a select
// group costs a second look-up, from rule to rule. Buckets that do the same run together. Where a
// packet goes on as well, or takes several buckets, each bucket works on copies.
#include <rte_prefetch.h>

#include "pipeline/execute/edit_inline.h"
#include "pipeline/execute/flow_hash.h"
#include "pipeline/execute/forward_runner.h"
#include "pipeline/execute/select_bucket.h"
#include "pipeline/execute/transmit.h"
#include "pipeline/operations/forms.h"
#include "pipeline/operations/outputs.h"
#include "pipeline/program/resolver.h"
#include "pipeline/terms/limits.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kType = 22;

OfResult<Action> decode(wire::Reader& body, ActionContext) {
  const uint32_t group_id = body.u32();
  if (group_id > kGroupMax) return tl::unexpected(of_error::kBadActionOutGroup);
  return Action(GroupAction{group_id});
}

void encode(wire::Writer& writer, const Action& action) {
  encode_head(writer, kType, 8);
  writer.u32(action.arguments<GroupAction>().group_id);
}

OfResult<Op> compile(const Action& action, ActionContext, Resolver& resolver) {
  Op op = make_op(GroupAction::operation());
  op.group = resolver.group_handle(action.arguments<GroupAction>().group_id);
  if (op.group == nullptr) return tl::unexpected(of_error::kBadActionOutGroup);
  return op;
}

/// Packets of a burst on their way through buckets: buckets[k] is that of packet k.
struct BucketBurst {
  OpBurst packets;
  std::array<const BucketProgram*, kBurst> buckets;

  BucketBurst(const PacketBlock& block, unsigned nesting) {
    packets.block = &block;
    packets.nesting = nesting;
    packets.count = 0;
  }
  void add(uint8_t at, const BucketProgram* bucket, const RuleBody* rule) {
    buckets[packets.count] = bucket;
    packets.add(at, bucket->ops.data(), rule);
  }
};

/// Runs the buckets on packets that are theirs alone, those that do the same together.
void run_buckets(Execution& x, BucketBurst& all) noexcept {
  OpBurst& burst = all.packets;
  while (burst.count != 0) {
    const uint32_t wanted = all.buckets[0]->action_class;
    const size_t n_ops = all.buckets[0]->ops.size();
    OpBurst same;
    same.block = burst.block;
    same.nesting = burst.nesting + 1;
    same.count = 0;
    size_t kept = 0;
    for (size_t k = 0; k < burst.count; ++k) {
      if (all.buckets[k]->action_class == wanted) {
        same.add(burst.at[k], burst.ops[k], burst.rule[k]);
      } else {
        burst.keep(kept, k);
        all.buckets[kept++] = all.buckets[k];
      }
    }
    burst.count = kept;
    run_ops(x, same, n_ops, true);
    for (size_t k = 0; k < same.count; ++k) {
      x.drop(same.block->packets[same.at[k]], DropReason::no_output);
    }
  }
}

/// Runs the buckets on copies of the packets. A bucket that changes nothing reads their keys.
void run_buckets_on_copies(Execution& x, const BucketBurst& all) noexcept {
  const OpBurst& from = all.packets;
  std::array<rte_mbuf*, kBurst> made;
  copy_each(x, from, made.data());
  BlockStorage& storage = *x.copies[from.nesting];
  bool edits = false;
  for (size_t k = 0; k < from.count; ++k) edits = edits || all.buckets[k]->edits;
  const PacketBlock block = edits ? storage.block()
                                  : PacketBlock{storage.packets.data(), from.block->keys,
                                                from.block->parsed, from.block->lengths};
  BucketBurst copies(block, from.nesting);
  for (size_t k = 0; k < from.count; ++k) {
    if (made[k] == nullptr) continue;
    const uint8_t i = from.at[k];
    storage.packets[i] = made[k];
    if (edits) {
      storage.keys[i] = from.block->keys[i];
      storage.parsed[i] = from.block->parsed[i];
      storage.lengths[i] = from.block->lengths[i];
    }
    copies.add(i, all.buckets[k], from.rule[k]);
  }
  run_buckets(x, copies);
}

void count_buckets(const Execution& x, const BucketBurst& all) noexcept {
  for (size_t k = 0; k < all.packets.count; ++k) {
    add(x.burst.counts[all.buckets[k]->rule.counter], 1, all.packets.view(k).packet->pkt_len);
  }
}

/// A packet that its group does not take on.
void refuse(Execution& x, const OpBurst& burst, size_t k, DropReason reason) noexcept {
  x.count_drop(reason);
  if (burst.last) x.tx.free(burst.block->packets[burst.at[k]]);
}

/// A group of type all, on packets that are at it.
void run_all(Execution& x, const OpBurst& burst, std::span<const uint8_t> members,
             const GroupProgram& group) noexcept {
  if (group.buckets.empty()) {
    for (const uint8_t k : members) refuse(x, burst, k, DropReason::no_output);
    return;
  }
  for (const BucketProgram& bucket : group.buckets) {
    BucketBurst packets(*burst.block, burst.nesting);
    for (const uint8_t k : members) packets.add(burst.at[k], &bucket, burst.rule[k]);
    count_buckets(x, packets);
    if (burst.last && &bucket == &group.buckets.back()) {
      run_buckets(x, packets);
    } else {
      run_buckets_on_copies(x, packets);
    }
  }
}

/// Groups of type all: packets of one group together.
void run_all_groups(Execution& x, const OpBurst& burst, std::span<const GroupProgram* const> groups,
                    std::span<uint8_t> members) noexcept {
  while (!members.empty()) {
    const GroupProgram* group = groups[members[0]];
    std::array<uint8_t, kBurst> same;
    size_t n_same = 0;
    size_t kept = 0;
    for (const uint8_t k : members) {
      if (groups[k] == group) {
        same[n_same++] = k;
      } else {
        members[kept++] = k;
      }
    }
    members = members.first(kept);
    run_all(x, burst, {same.data(), n_same}, *group);
  }
}

bool ttl_lasts(const Rule& rule, PacketView view) {
  return (rule.edits & kEditTtl) == 0 ||
         !ttl_expires(rte_pktmbuf_mtod(view.packet, const uint8_t*), *view.parsed);
}

/// Whether a packet's group can be run, which then counts it; else the packet is refused.
bool enter_group(Execution& x, const OpBurst& burst, size_t k, const GroupProgram* group) noexcept {
  if (group == nullptr) [[unlikely]] {
    refuse(x, burst, k, DropReason::group_missing);
    return false;
  }
  if (burst.nesting >= kMaxGroupDepth) [[unlikely]] {
    refuse(x, burst, k, DropReason::group_loop);
    return false;
  }
  add(x.burst.counts[group->counter], 1, burst.view(k).packet->pkt_len);
  return true;
}

/// Packets whose buckets are known: packet k[i] of the burst takes bucket[i].
struct Chosen {
  size_t count{0};
  std::array<uint8_t, kBurst> k;
  std::array<const BucketProgram*, kBurst> bucket;
};

/// Packets that take their buckets and nothing else: `burst` ends here.
void run_chosen(Execution& x, const OpBurst& burst, const Chosen& chosen,
                const uint64_t* hashes) noexcept {
  RuleBurst forwards;
  BucketBurst others(*burst.block, burst.nesting);
  for (size_t i = 0; i < chosen.count; ++i) {
    const size_t k = chosen.k[i];
    const Rule& rule = chosen.bucket[i]->rule;
    const PacketView view = burst.view(k);
    add(x.burst.counts[rule.counter], 1, view.packet->pkt_len);
    if (burst.block == &x.main && rule.fast_path == FastPathClass::forward && ttl_lasts(rule, view))
        [[likely]] {
      if ((rule.edits & kEditTunnel) != 0) rte_prefetch0(rule.forward.tunnel);
      forwards.add(burst.at[k], &rule);
    } else {
      others.add(burst.at[k], chosen.bucket[i], burst.rule[k]);
    }
  }
  if (forwards.count != 0) forward_rules(x, forwards, hashes);
  if (others.packets.count != 0) run_buckets(x, others);
}

using Groups = std::array<const GroupProgram*, kBurst>;  // by a burst's k

/// True if all packets are at select groups without memory, none of which has a bucket that may be
/// dead.
bool all_pick_by_hash(const OpBurst& burst, const Groups& groups) noexcept {
  if (burst.nesting >= kMaxGroupDepth) [[unlikely]] {
    return false;
  }
  bool others = false;
  for (size_t k = 0; k < burst.count; ++k) {
    const GroupProgram* group = groups[k];
    if (group == nullptr) [[unlikely]] {
      return false;
    }
    others |= group->type != GroupMod::Type::select;
    others |= group->memory != nullptr;
    others |= group->watched;
    others |= group->bucket_table.empty();
  }
  return !others;
}

/// The buckets of packets that are all at such groups. Each step is a short loop of its own, so
/// that the misses of many packets are under way together.
void pick_by_hash(Execution& x, const OpBurst& burst, const Groups& groups, uint64_t* hashes,
                  Chosen& chosen) noexcept {
  std::array<uint32_t, kBurst> picks;
  for (size_t k = 0; k < burst.count; ++k) {
    const PacketView view = burst.view(k);
    const uint64_t hash = hashes[burst.at[k]] = flow_hash64(view.packet, *view.parsed);
    picks[k] = static_cast<uint32_t>(select_hash(view.packet, hash) >> 32);
  }
  for (size_t k = 0; k < burst.count; ++k) {
    const BucketProgram* bucket = &bucket_at(*groups[k], picks[k]);
    rte_prefetch0(&bucket->rule);
    chosen.k[k] = static_cast<uint8_t>(k);
    chosen.bucket[k] = bucket;
  }
  chosen.count = burst.count;
  for (size_t k = 0; k < burst.count; ++k) {
    add(x.burst.counts[groups[k]->counter], 1, burst.view(k).packet->pkt_len);
  }
}

/// The buckets of packets at groups of any type; packets at groups of type all are run here.
void pick_each(Execution& x, const OpBurst& burst, const Groups& groups, uint64_t* hashes,
               Chosen& chosen) noexcept {
  const uint64_t version = x.burst.program->version;
  std::array<uint8_t, kBurst> all_members;
  size_t n_all = 0;
  for (size_t k = 0; k < burst.count; ++k) {
    const GroupProgram* group = groups[k];
    if (!enter_group(x, burst, k, group)) continue;
    if (group->type == GroupMod::Type::all) {
      all_members[n_all++] = static_cast<uint8_t>(k);
      continue;
    }
    const PacketView view = burst.view(k);
    const uint64_t hash = hashes[burst.at[k]] = flow_hash64(view.packet, *view.parsed);
    const uint64_t choice =
        group->paired ? pair_hash(view.packet, *view.parsed) : select_hash(view.packet, hash);
    const BucketProgram* bucket = choose_bucket(*group, version, choice, x.tsc);
    if (bucket == nullptr) [[unlikely]] {
      refuse(x, burst, k, DropReason::no_live_bucket);
      continue;
    }
    rte_prefetch0(&bucket->rule);
    chosen.k[chosen.count] = static_cast<uint8_t>(k);
    chosen.bucket[chosen.count++] = bucket;
  }
  if (n_all != 0) run_all_groups(x, burst, groups, {all_members.data(), n_all});
}

void run(Execution& x, OpBurst& burst) {
  note_outputs(x, burst);
  const uint64_t version = x.burst.program->version;
  Groups groups;
  for (size_t k = 0; k < burst.count; ++k) groups[k] = burst.ops[k]->group->at(version);
  std::array<uint64_t, kBurst> hashes;  // by position
  Chosen chosen;
  if (all_pick_by_hash(burst, groups)) [[likely]] {
    pick_by_hash(x, burst, groups, hashes.data(), chosen);
  } else {
    pick_each(x, burst, groups, hashes.data(), chosen);
  }
  if (burst.last) {
    run_chosen(x, burst, chosen, hashes.data());
    burst.count = 0;
    return;
  }
  BucketBurst packets(*burst.block, burst.nesting);
  for (size_t i = 0; i < chosen.count; ++i) {
    const size_t k = chosen.k[i];
    packets.add(burst.at[k], chosen.bucket[i], burst.rule[k]);
  }
  count_buckets(x, packets);
  if (packets.packets.count != 0) run_buckets_on_copies(x, packets);
}

bool reference(ReferencePacket& packet, const Action& action) {
  packet.sw.run_group(packet, action.arguments<GroupAction>().group_id);
  return true;
}

constexpr WireForm kForms[] = {{.type = kType, .length = 8, .decode = decode}};

}  // namespace

extern const Operation operation_group{
    .name = "group",
    .forms = kForms,
    .encode = encode,
    .order = SetOrder::group,
    .compile = compile,
    .reads = constant_words<kIpAndL4Words>,
    .run = run,
    .reference = reference,
};

const Operation& GroupAction::operation() {
  return operation_group;
}

}  // namespace headrace::pipeline
