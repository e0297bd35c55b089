// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/groups.h"

#include <array>

#include "openflow/codec/actions.h"
#include "openflow/codec/protocol.h"

namespace headrace::openflow {
namespace {

using pipeline::Bucket;
using pipeline::GroupMod;

constexpr uint32_t kSelectWeight = 1 << 0;
constexpr uint32_t kSelectLiveness = 1 << 1;
constexpr uint32_t kChaining = 1 << 2;
constexpr uint32_t kChainingChecks = 1 << 3;
constexpr uint32_t kAllTypes = 0b1111;
/// Bits of ofp_action_type that buckets may contain.
constexpr uint32_t kBucketActions = 1u << 0 | 1u << 11 | 1u << 12 | 1u << 15 | 1u << 16 | 1u << 17 |
                                    1u << 18 | 1u << 19 | 1u << 20 | 1u << 21 | 1u << 22 |
                                    1u << 23 | 1u << 24 | 1u << 25 | 1u << 26 | 1u << 27;
/// Open vSwitch's OFPGC_ADD_OR_MOD (ovs-ofctl --may-create).
constexpr uint16_t kAddOrModify = 0x8000;
/// A description is 8 octets longer than the group-mod that made the group.
constexpr size_t kDescOverhead = 8;
constexpr OfError kOutOfBuckets{6, 4};

OfResult<Bucket> decode_bucket(Reader& reader) {
  const uint16_t length = reader.u16();
  Bucket bucket;
  bucket.weight = reader.u16();
  bucket.watch_port = reader.u32();
  bucket.watch_group = reader.u32();
  reader.skip(4);
  if (!reader.ok() || length < 16 || length % 8 != 0) return of_fail(error::kGroupBadBucket);
  const Bytes action_bytes = reader.bytes(length - 16u);
  if (!reader.ok()) return of_fail(error::kGroupBadBucket);
  OfResult<pipeline::ActionList> actions = decode_actions(action_bytes, ActionContext::bucket);
  if (!actions) return of_fail(actions.error());
  bucket.actions = std::move(*actions);
  return bucket;
}

void encode_bucket(Writer& writer, const Bucket& bucket) {
  const size_t start = writer.size();
  writer.u16(0);
  writer.u16(bucket.weight);
  writer.u32(bucket.watch_port);
  writer.u32(bucket.watch_group);
  writer.zeros(4);
  encode_actions(writer, bucket.actions);
  writer.patch16(start, writer.size() - start);
}

}  // namespace

OfResult<GroupMod> decode_group_mod(Bytes body) {
  Reader reader(body);
  const uint16_t command = reader.u16();
  const uint8_t type = reader.u8();
  reader.skip(1);
  GroupMod mod;
  mod.group_id = reader.u32();
  if (!reader.ok()) return of_fail(error::kBadLen);
  if (command == kAddOrModify) {
    mod.command = GroupMod::Command::add_or_modify;
  } else if (command > static_cast<uint16_t>(GroupMod::Command::remove)) {
    return of_fail(error::kGroupBadCommand);
  } else {
    mod.command = static_cast<GroupMod::Command>(command);
  }
  if (mod.command == GroupMod::Command::remove) return mod;
  if (type > static_cast<uint8_t>(GroupMod::Type::fast_failover)) {
    return of_fail(error::kGroupBadType);
  }
  mod.type = static_cast<GroupMod::Type>(type);
  if (mod.group_id > pipeline::kGroupMax) return of_fail(error::kInvalidGroup);
  if (body.size() > kMaxMessage - kHeaderSize - kDescOverhead) return of_fail(kOutOfBuckets);
  while (reader.left() > 0) {
    OfResult<Bucket> bucket = decode_bucket(reader);
    if (!bucket) return of_fail(bucket.error());
    mod.buckets.push_back(std::move(*bucket));
  }
  return mod;
}

OfResult<uint32_t> decode_group_request(Bytes body) {
  Reader reader(body);
  const uint32_t group_id = reader.u32();
  reader.skip(4);
  if (!reader.done()) return of_fail(error::kBadLen);
  return group_id;
}

void encode_group_stats(Writer& writer, const pipeline::GroupStats& stats) {
  const size_t start = writer.size();
  writer.u16(0);
  writer.zeros(2);
  writer.u32(stats.group_id);
  writer.u32(stats.references);
  writer.zeros(4);
  writer.u64(stats.packets);
  writer.u64(stats.bytes);
  writer.u32(stats.duration.seconds);
  writer.u32(stats.duration.nanoseconds);
  for (const pipeline::BucketStats& bucket : stats.buckets) {
    writer.u64(bucket.packets);
    writer.u64(bucket.bytes);
  }
  writer.patch16(start, writer.size() - start);
}

void encode_group_desc(Writer& writer, const pipeline::GroupDesc& desc) {
  const size_t start = writer.size();
  writer.u16(0);
  writer.u8(static_cast<uint8_t>(desc.type));
  writer.zeros(1);
  writer.u32(desc.group_id);
  for (const Bucket& bucket : desc.buckets) encode_bucket(writer, bucket);
  writer.patch16(start, writer.size() - start);
}

void encode_group_features(Writer& writer, uint32_t max_groups) {
  writer.u32(kAllTypes);
  writer.u32(kSelectWeight | kSelectLiveness | kChaining | kChainingChecks);
  for (int type = 0; type < 4; ++type) writer.u32(max_groups);
  for (int type = 0; type < 4; ++type) writer.u32(kBucketActions);
}

}  // namespace headrace::openflow
