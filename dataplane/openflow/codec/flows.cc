// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/flows.h"

#include "openflow/codec/instructions.h"
#include "openflow/codec/oxm.h"

namespace headrace::openflow {
namespace {

using pipeline::FlowMod;

constexpr uint16_t kFlowFlags = pipeline::kFlowSendRemoved | pipeline::kFlowCheckOverlap |
                                pipeline::kFlowResetCounts | pipeline::kFlowNoPacketCounts |
                                pipeline::kFlowNoByteCounts;
/// The octets that ofp_flow_stats and the multipart header have more than a flow-mod: a flow whose
/// instructions fill a flow-mod completely could not be reported.
constexpr size_t kStatsOverhead = 16;

bool is_delete(FlowMod::Command command) {
  return command == FlowMod::Command::remove || command == FlowMod::Command::remove_strict;
}

}  // namespace

OfResult<FlowMod> decode_flow_mod(Bytes body) {
  Reader reader(body);
  FlowMod mod;
  mod.cookie = reader.u64();
  mod.cookie_mask = reader.u64();
  mod.table_id = reader.u8();
  const uint8_t command = reader.u8();
  mod.idle_timeout = reader.u16();
  mod.hard_timeout = reader.u16();
  mod.priority = reader.u16();
  mod.buffer_id = reader.u32();
  mod.out_port = reader.u32();
  mod.out_group = reader.u32();
  mod.flags = reader.u16();
  reader.skip(2);
  if (!reader.ok()) return of_fail(error::kBadLen);
  if (command > static_cast<uint8_t>(FlowMod::Command::remove_strict)) {
    return of_fail(error::kFlowModBadCommand);
  }
  mod.command = static_cast<FlowMod::Command>(command);
  if ((mod.flags & ~kFlowFlags) != 0) return of_fail(error::kFlowModBadFlags);
  OfResult<match::Match> match = decode_match(reader);
  if (!match) return of_fail(match.error());
  mod.match = std::move(*match);
  const bool any_table = mod.table_id == pipeline::kTableAll;
  if (any_table ? !is_delete(mod.command) : mod.table_id >= pipeline::kTableCount) {
    return of_fail(error::kFlowModBadTableId);
  }
  if (is_delete(mod.command)) return mod;
  if (body.size() > kMaxMessage - kHeaderSize - kStatsOverhead) {
    return of_fail(error::kActionTooMany);
  }
  OfResult<pipeline::InstructionList> instructions =
      decode_instructions(reader.rest(), mod.table_id, KnownHeaders::of(mod.match));
  if (!instructions) return of_fail(instructions.error());
  mod.instructions = std::move(*instructions);
  return mod;
}

Message encode_flow_removed(const pipeline::FlowStats& flow, pipeline::FlowRemovedReason reason) {
  Message message = begin_message(Type::flow_removed, 0);
  Writer writer(message);
  writer.u64(flow.cookie);
  writer.u16(flow.priority);
  writer.u8(static_cast<uint8_t>(reason));
  writer.u8(flow.table_id);
  writer.u32(flow.duration.seconds);
  writer.u32(flow.duration.nanoseconds);
  writer.u16(flow.idle_timeout);
  writer.u16(flow.hard_timeout);
  writer.u64(flow.packets);
  writer.u64(flow.bytes);
  encode_match(writer, flow.match);
  return finish(std::move(message));
}

OfResult<pipeline::FlowFilter> decode_flow_filter(Bytes body) {
  Reader reader(body);
  pipeline::FlowFilter filter;
  filter.table_id = reader.u8();
  reader.skip(3);
  filter.out_port = reader.u32();
  filter.out_group = reader.u32();
  reader.skip(4);
  filter.cookie = reader.u64();
  filter.cookie_mask = reader.u64();
  if (!reader.ok()) return of_fail(error::kBadLen);
  OfResult<match::Match> match = decode_match(reader);
  if (!match) return of_fail(match.error());
  if (!reader.done()) return of_fail(error::kBadLen);
  if (filter.table_id != pipeline::kTableAll && filter.table_id >= pipeline::kTableCount) {
    return of_fail(error::kRequestBadTableId);
  }
  filter.match = std::move(*match);
  return filter;
}

void encode_flow_stats(Writer& writer, const pipeline::FlowStats& flow) {
  const size_t start = writer.size();
  writer.u16(0);
  writer.u8(flow.table_id);
  writer.zeros(1);
  writer.u32(flow.duration.seconds);
  writer.u32(flow.duration.nanoseconds);
  writer.u16(flow.priority);
  writer.u16(flow.idle_timeout);
  writer.u16(flow.hard_timeout);
  writer.u16(flow.flags);
  writer.zeros(4);
  writer.u64(flow.cookie);
  writer.u64(flow.packets);
  writer.u64(flow.bytes);
  encode_match(writer, flow.match);
  encode_instructions(writer, flow.instructions);
  writer.patch16(start, writer.size() - start);
}

void encode_aggregate(Writer& writer, const pipeline::AggregateStats& stats) {
  writer.u64(stats.packets);
  writer.u64(stats.bytes);
  writer.u32(stats.flows);
  writer.zeros(4);
}

}  // namespace headrace::openflow
