// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of ports: description, counters, port-status, port-mod.
//
// Source: OpenFlow 1.3.5, sections 7.2.1, 7.3.4.3, 7.3.5.6, 7.3.5.7, 7.4.3.
#pragma once

#include <cstdint>

#include "openflow/codec/errors.h"
#include "openflow/codec/protocol.h"
#include "openflow/codec/wire.h"
#include "pipeline/terms/stats.h"

namespace headrace::openflow {

/// A device's counters in addition to the pipeline's. Counters that it doesn't support are
/// UINT64_MAX, as the specification requires.
struct DeviceCounters {
  uint64_t rx_dropped{0};  ///< lost before the pipeline saw them
  uint64_t rx_errors{0};
  uint64_t tx_errors{0};
  uint64_t rx_frame_errors{UINT64_MAX};
  uint64_t rx_overruns{UINT64_MAX};
  uint64_t rx_crc_errors{UINT64_MAX};
  uint64_t collisions{UINT64_MAX};
};

/// Appends an ofp_port.
void encode_port(Writer& writer, const pipeline::PortDesc& port);
/// Appends an ofp_port_stats.
void encode_port_stats(Writer& writer, const pipeline::PortStats& stats,
                       const DeviceCounters& device);
/// A complete OFPT_PORT_STATUS.
Message encode_port_status(pipeline::PortChange change, const pipeline::PortDesc& port);
/// The body (after ofp_header) of OFPT_PORT_MOD. Features to advertise are an error: no device here
/// can renegotiate on request.
OfResult<pipeline::PortMod> decode_port_mod(Bytes body);

}  // namespace headrace::openflow
