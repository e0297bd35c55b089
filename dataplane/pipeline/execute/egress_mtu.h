// SPDX-License-Identifier: Apache-2.0
// Which frames are too long for the port that they are to leave by.
//
// As in OVS, a frame may have the port's MTU behind an Ethernet header and one VLAN tag; for a
// second tag there are four octets more. A packet that is to be cut into segments counts by them.
// Devices don't check it themselves (a tap hands the kernel whatever it gets, a memif or shared
// memory whatever fits), or fail with the packets behind.
//
// Thread safety: pure.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <span>

#include "packet/bytes.h"
#include "packet/headers.h"
#include "packet/offload.h"

namespace headrace::pipeline {

inline constexpr uint32_t kMtuOverhead = 14 + 4;  ///< Ethernet header, one VLAN tag

/// Some packet may be too long: is_too_long() decides. Costs a compare for each packet.
[[nodiscard]] inline bool may_be_too_long(std::span<rte_mbuf* const> packets,
                                          uint32_t max_frame) noexcept {
  uint32_t longest = 0;
  for (const rte_mbuf* packet : packets) {
    longest = packet->pkt_len > longest ? packet->pkt_len : longest;
  }
  return longest > max_frame;
}

/// Octets of the longest frame that the packet becomes on the wire.
[[nodiscard]] inline uint32_t longest_frame(const rte_mbuf* packet) noexcept {
  if (!packet::segments_left(packet)) return packet->pkt_len;
  const uint32_t segment = packet::l4_offset(packet) + packet->l4_len + packet->tso_segsz;
  return segment < packet->pkt_len ? segment : packet->pkt_len;
}

/// Longer than a port with that `max_frame` (MTU and kMtuOverhead) sends.
[[nodiscard]] inline bool is_too_long(const rte_mbuf* packet, uint32_t max_frame) noexcept {
  const uint32_t octets = longest_frame(packet);
  if (octets <= max_frame) return false;
  constexpr uint32_t kAddresses = 12;
  constexpr uint32_t kTag = sizeof(packet::VlanTag);
  if (octets - max_frame > kTag || packet->data_len < kAddresses + 2 * kTag) return true;
  const auto* type = rte_pktmbuf_mtod_offset(packet, const uint8_t*, kAddresses);
  const auto is_tag = [](uint16_t raw) {
    return raw == packet::kTypeVlan || raw == packet::kTypeQinQ;
  };
  return !is_tag(packet::load_raw16(type)) || !is_tag(packet::load_raw16(type + kTag));
}

}  // namespace headrace::pipeline
