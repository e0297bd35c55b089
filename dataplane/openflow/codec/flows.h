// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of flows: flow-mod, flow-removed, flow and aggregate statistics.
//
// Source: OpenFlow 1.3.5, sections 7.3.4.1, 7.3.5.2, 7.3.5.3, 7.4.2.
#pragma once

#include "openflow/codec/errors.h"
#include "openflow/codec/message.h"
#include "openflow/codec/wire.h"
#include "pipeline/terms/flow_types.h"
#include "pipeline/terms/stats.h"

namespace headrace::openflow {

/// The body (after ofp_header) of OFPT_FLOW_MOD. Instructions of a delete are ignored.
OfResult<pipeline::FlowMod> decode_flow_mod(Bytes body);

/// A complete OFPT_FLOW_REMOVED.
Message encode_flow_removed(const pipeline::FlowStats& flow, pipeline::FlowRemovedReason reason);

/// The body of a flow or aggregate statistics request.
OfResult<pipeline::FlowFilter> decode_flow_filter(Bytes body);
/// Appends an ofp_flow_stats.
void encode_flow_stats(Writer& writer, const pipeline::FlowStats& flow);
/// Appends an ofp_aggregate_stats_reply.
void encode_aggregate(Writer& writer, const pipeline::AggregateStats& stats);

}  // namespace headrace::openflow
