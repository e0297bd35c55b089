// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of flow monitors: a controller's requests and the updates sent to it.
//
// Source: ONF extension EXT-187 (the 1.3 form of OpenFlow 1.4's flow monitors), as implemented by
// Open vSwitch: a match is a whole ofp_match, preceded by its length without padding, and followed
// by instructions, not actions.
#pragma once

#include <cstdint>
#include <vector>

#include "openflow/codec/errors.h"
#include "openflow/codec/multipart.h"
#include "pipeline/terms/stats.h"

namespace headrace::openflow {

/// exp_type of the multipart request and reply, and of the message that cancels a monitor.
inline constexpr uint32_t kFlowMonitor = 1870;

/// ONFFMF_*: the events and details that a monitor requests.
namespace monitor_flag {
inline constexpr uint16_t kInitial = 1 << 0;  ///< the existing flows
inline constexpr uint16_t kAdd = 1 << 1;
inline constexpr uint16_t kDelete = 1 << 2;
inline constexpr uint16_t kModify = 1 << 3;
inline constexpr uint16_t kInstructions = 1 << 4;  ///< with instructions
inline constexpr uint16_t kOwn = 1 << 5;           ///< changes by the same connection in full, too
inline constexpr uint16_t kAll = 0b111111;
}  // namespace monitor_flag

/// onf_flow_monitor_request.
struct FlowMonitor {
  uint32_t id{0};
  uint16_t flags{0};
  pipeline::FlowFilter filter;  ///< table, port and match
};

/// The body of a request after exp_type: one monitor or more.
OfResult<std::vector<FlowMonitor>> decode_flow_monitors(Bytes body);
/// The body of a cancelling message after exp_type: the monitor's id.
OfResult<uint32_t> decode_flow_monitor_cancel(Bytes body);

/// A reply without updates.
MultipartReply flow_monitor_reply(uint32_t xid);
/// Appends an onf_flow_update_full.
void encode_flow_update(Writer& writer, const pipeline::FlowStats& flow,
                        pipeline::FlowChange change, pipeline::FlowRemovedReason reason,
                        bool with_instructions);
/// Appends an onf_flow_update_abbrev: the change was made by the connection's own request `xid`.
void encode_flow_update_abbreviated(Writer& writer, uint32_t xid);

}  // namespace headrace::openflow
