// SPDX-License-Identifier: Apache-2.0
// OFPT_PACKET_IN: a packet on its way to the controllers.
//
// Source: OpenFlow 1.3.5, section 7.4.1.
#pragma once

#include <cstdint>

#include "match/fields.h"
#include "openflow/protocol.h"
#include "openflow/wire.h"

namespace headrace::openflow {

/// A packet that the pipeline sent to the controller.
struct PacketIn {
  PacketInReason reason{PacketInReason::no_match};
  uint8_t table_id{0};
  uint64_t cookie{UINT64_MAX};  ///< of the rule; all ones without one (packet-out, group)
  uint32_t in_port{0};          ///< host order
  uint32_t in_phy_port{0};      ///< host order; on the wire only where it differs from in_port
  uint64_t metadata{0};         ///< host order; on the wire if not 0
  uint64_t tunnel_id{0};        ///< host order; on the wire if not 0
  uint16_t max_len{0xffff};     ///< of the output action; 0xffff: send all, don't buffer
  Bytes packet;                 ///< the whole frame, without FCS; used during the call only
};

/// A whole OFPT_PACKET_IN with the packet's first `data_len` octets.
Message encode_packet_in(const PacketIn& packet_in, uint32_t buffer_id, size_t data_len);

}  // namespace headrace::openflow
