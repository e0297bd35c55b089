// SPDX-License-Identifier: Apache-2.0
// OFPT_PACKET_OUT: a packet that a controller sends through the switch.
//
// Source: OpenFlow 1.3.5, section 7.3.7.
#pragma once

#include "openflow/codec/errors.h"
#include "openflow/codec/wire.h"
#include "pipeline/terms/flow_types.h"

namespace headrace::openflow {

/// ofp_packet_out.
struct PacketOut {
  uint32_t buffer_id{pipeline::kNoBuffer};
  pipeline::PortNo in_port{pipeline::kPortController};
  pipeline::ActionList actions;
  Bytes packet;  ///< a view into the message; empty if it is buffered
};

/// The body (after ofp_header) of OFPT_PACKET_OUT.
OfResult<PacketOut> decode_packet_out(Bytes body);

}  // namespace headrace::openflow
