// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of meters: meter-mod, meter statistics, configuration and features.
//
// Source: OpenFlow 1.3.5, sections 7.3.4.4, 7.3.5.12, 7.3.5.13, 7.3.5.14.
#pragma once

#include "openflow/codec/errors.h"
#include "openflow/codec/wire.h"
#include "pipeline/terms/flow_types.h"
#include "pipeline/terms/stats.h"

namespace headrace::openflow {

/// The body (after ofp_header) of OFPT_METER_MOD.
OfResult<pipeline::MeterMod> decode_meter_mod(Bytes body);
/// The meter of a meter statistics or configuration request.
OfResult<uint32_t> decode_meter_request(Bytes body);
/// Appends an ofp_meter_stats.
void encode_meter_stats(Writer& writer, const pipeline::MeterStats& stats);
/// Appends an ofp_meter_config.
void encode_meter_config(Writer& writer, const pipeline::MeterConfig& config);
/// Appends the ofp_meter_features.
void encode_meter_features(Writer& writer, uint32_t max_meters);

}  // namespace headrace::openflow
