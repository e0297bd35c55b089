// SPDX-License-Identifier: Apache-2.0
// OFPT_PACKET_IN: a packet sent to the controllers.
//
// Source: OpenFlow 1.3.5, section 7.4.1.
#pragma once

#include "openflow/codec/protocol.h"
#include "openflow/codec/wire.h"
#include "pipeline/terms/punt.h"

namespace headrace::openflow {

/// A complete OFPT_PACKET_IN with the first `data_len` octets of `packet`.
Message encode_packet_in(const pipeline::PuntInfo& info, Bytes packet, uint32_t buffer_id,
                         size_t data_len);

}  // namespace headrace::openflow
