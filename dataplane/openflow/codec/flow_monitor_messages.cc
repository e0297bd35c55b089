// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/flow_monitor_messages.h"

#include "openflow/codec/instructions.h"
#include "openflow/codec/oxm.h"

namespace headrace::openflow {
namespace {

/// ONFFME_ABBREV; the events before it have the values of pipeline::FlowChange.
constexpr uint16_t kAbbreviated = 3;
constexpr size_t kMatchHeader = 4;

size_t padded(size_t length) {
  return (length + 7) / 8 * 8;
}

OfResult<FlowMonitor> decode_one(Reader& reader) {
  FlowMonitor monitor;
  monitor.id = reader.u32();
  monitor.flags = reader.u16();
  const size_t match_len = reader.u16();
  monitor.filter.out_port = reader.u32();
  monitor.filter.table_id = reader.u8();
  reader.skip(3);
  Reader match_reader(reader.bytes(padded(match_len)));
  if (!reader.ok()) return of_fail(error::kBadLen);
  if (match_len < kMatchHeader) return of_fail(error::kMatchBadLen);
  OfResult<match::Match> match = decode_match(match_reader);
  if (!match) return of_fail(match.error());
  if (!match_reader.done()) return of_fail(error::kMatchBadLen);
  monitor.filter.match = std::move(*match);
  using namespace monitor_flag;
  const bool told = (monitor.flags & (kInitial | kAdd | kDelete | kModify)) != 0;
  if ((monitor.flags & ~kAll) != 0 || !told) return of_fail(error::kMonitorBadFlags);
  if (monitor.filter.table_id != pipeline::kTableAll &&
      monitor.filter.table_id >= pipeline::kTableCount) {
    return of_fail(error::kRequestBadTableId);
  }
  return monitor;
}

}  // namespace

OfResult<std::vector<FlowMonitor>> decode_flow_monitors(Bytes body) {
  Reader reader(body);
  std::vector<FlowMonitor> monitors;
  while (reader.left() > 0) {
    OfResult<FlowMonitor> monitor = decode_one(reader);
    if (!monitor) return of_fail(monitor.error());
    monitors.push_back(std::move(*monitor));
  }
  return monitors;
}

OfResult<uint32_t> decode_flow_monitor_cancel(Bytes body) {
  Reader reader(body);
  const uint32_t id = reader.u32();
  if (!reader.done()) return of_fail(error::kBadLen);
  return id;
}

MultipartReply flow_monitor_reply(uint32_t xid) {
  return {xid, kOnfExperimenter, kFlowMonitor};
}

void encode_flow_update(Writer& writer, const pipeline::FlowStats& flow,
                        pipeline::FlowChange change, pipeline::FlowRemovedReason reason,
                        bool with_instructions) {
  const bool removed = change == pipeline::FlowChange::removed;
  const size_t start = writer.size();
  writer.u16(0);
  writer.u16(static_cast<uint16_t>(change));
  writer.u16(removed ? static_cast<uint16_t>(reason) : uint16_t{0});
  writer.u16(flow.priority);
  writer.u16(flow.idle_timeout);
  writer.u16(flow.hard_timeout);
  const size_t match_len_at = writer.size();
  writer.u16(0);
  writer.u8(flow.table_id);
  writer.zeros(1);
  writer.u64(flow.cookie);
  const size_t match_at = writer.size();
  encode_match(writer, flow.match);
  // ofp_match has its own length, without padding, in its second half-word.
  writer.patch16(match_len_at, writer.peek16(match_at + 2));
  if (with_instructions) encode_instructions(writer, flow.instructions);
  writer.patch16(start, writer.size() - start);
}

void encode_flow_update_abbreviated(Writer& writer, uint32_t xid) {
  writer.u16(8);
  writer.u16(kAbbreviated);
  writer.u32(xid);
}

}  // namespace headrace::openflow
