// SPDX-License-Identifier: Apache-2.0
// A packet's way from a worker to the control thread: what becomes an OpenFlow packet-in.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstdint>

#include "pipeline/terms/flow_types.h"

namespace headrace::pipeline {

/// Why a packet goes to the controller; values of ofp_packet_in_reason. `underlay` is for the
/// switch itself: neighbors of tunnels (in_port LOCAL: what one said; else: the far end that
/// `metadata` and `tunnel_id` hold is to be resolved).
enum class PuntReason : uint8_t { no_match = 0, action = 1, invalid_ttl = 2, underlay = 255 };

/// An outer destination: the raw octets of an IPv6 address, or of an IPv4 address mapped to one
/// (RFC 4291, 2.5.5.2).
using RemoteEndpoint = std::array<uint64_t, 2>;

/// What the packet-in says beside the packet itself.
struct PuntInfo {
  uint32_t lsi_id;  ///< LsiConfig::id of the LSI that punted
  PortNo in_port;
  PortNo in_phy_port;
  uint8_t table_id;
  PuntReason reason;
  uint16_t max_len;    ///< bytes that the rule asked for; kNoBufferLength: all
  uint64_t cookie;     ///< of the rule; all ones for packet-out
  uint64_t metadata;   ///< pipeline metadata, host order
  uint64_t tunnel_id;  ///< host order
};

/// Where an executor puts packets for the controller; one per worker, implemented by the runtime
/// (a ring to the control thread). Called on the packet path: must not block, lock or throw.
class PuntQueue {
 public:
  virtual ~PuntQueue() = default;
  /// Takes `packet` and returns true; or leaves it to the caller and returns false when full.
  virtual bool punt(rte_mbuf* packet, const PuntInfo& info) noexcept = 0;
};

}  // namespace headrace::pipeline
