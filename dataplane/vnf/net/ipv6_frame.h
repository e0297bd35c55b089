// SPDX-License-Identifier: Apache-2.0
// An untagged Ethernet frame that contains an IPv6 packet, validated before use.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <span>

#include "packet/bytes.h"
#include "packet/checksum.h"
#include "packet/headers.h"
#include "vnf/net/ipv4_frame.h"
#include "vnf/net/ipv6_address.h"

namespace headrace::vnf {

inline packet::Ipv6Header& ipv6_of(rte_mbuf* frame) {
  return *rte_pktmbuf_mtod_offset(frame, packet::Ipv6Header*, sizeof(packet::EthernetHeader));
}

/// Version and length (RFC 8200, 3). The frame's first segment must hold the header.
inline bool is_ipv6_valid(rte_mbuf* frame) {
  constexpr size_t kMinSize = sizeof(packet::EthernetHeader) + sizeof(packet::Ipv6Header);
  if (rte_pktmbuf_data_len(frame) < kMinSize) return false;
  const auto& ip = ipv6_of(frame);
  return (packet::swap32(ip.version_class_flow) >> 28) == 6 &&
         kMinSize + packet::swap16(ip.payload_length) <= rte_pktmbuf_pkt_len(frame);
}

/// What follows the fixed header, up to the payload length and the end of the first segment.
inline std::span<uint8_t> ipv6_payload_of(rte_mbuf* frame) {
  auto& ip = ipv6_of(frame);
  const size_t held =
      rte_pktmbuf_data_len(frame) - sizeof(packet::EthernetHeader) - sizeof(packet::Ipv6Header);
  const size_t length = packet::swap16(ip.payload_length);
  return {reinterpret_cast<uint8_t*>(&ip + 1), length < held ? length : held};
}

/// The checksum of an ICMPv6 message whose checksum field is zero; 0 if the field has the correct
/// one.
inline uint16_t icmpv6_checksum(const packet::Ipv6Header& ip, std::span<const uint8_t> message) {
  const auto sum = packet::pseudo_ipv6(ip.src, ip.dst, packet::kProtoIcmpv6,
                                       static_cast<uint32_t>(message.size())) +
                   packet::sum_of(message);
  return static_cast<uint16_t>(~packet::fold(sum));
}

}  // namespace headrace::vnf
