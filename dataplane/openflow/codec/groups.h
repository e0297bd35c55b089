// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of groups: group-mod, group statistics, descriptions and features.
//
// Source: OpenFlow 1.3.5, sections 7.3.4.2, 7.3.5.9, 7.3.5.10, 7.3.5.11.
#pragma once

#include "openflow/codec/errors.h"
#include "openflow/codec/wire.h"
#include "pipeline/terms/flow_types.h"
#include "pipeline/terms/stats.h"

namespace headrace::openflow {

/// The body (after ofp_header) of OFPT_GROUP_MOD.
OfResult<pipeline::GroupMod> decode_group_mod(Bytes body);
/// The group of a group statistics request.
OfResult<uint32_t> decode_group_request(Bytes body);
/// Appends an ofp_group_stats.
void encode_group_stats(Writer& writer, const pipeline::GroupStats& stats);
/// Appends an ofp_group_desc_stats.
void encode_group_desc(Writer& writer, const pipeline::GroupDesc& desc);
/// Appends the ofp_group_features: all types, weights, liveness, chaining with loop checks.
void encode_group_features(Writer& writer, uint32_t max_groups);

}  // namespace headrace::openflow
