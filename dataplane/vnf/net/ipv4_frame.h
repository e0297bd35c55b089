// SPDX-License-Identifier: Apache-2.0
// An untagged Ethernet frame that contains an IPv4 packet, validated before use.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <span>

#include "packet/bytes.h"
#include "packet/checksum.h"
#include "packet/headers.h"

namespace headrace::vnf {

inline packet::EthernetHeader& ethernet_of(rte_mbuf* frame) {
  return *rte_pktmbuf_mtod(frame, packet::EthernetHeader*);
}

inline packet::Ipv4Header& ipv4_of(rte_mbuf* frame) {
  return *rte_pktmbuf_mtod_offset(frame, packet::Ipv4Header*, sizeof(packet::EthernetHeader));
}

/// Octets of the IPv4 header, options included. Only after is_ipv4_valid().
inline size_t ipv4_header_size(const packet::Ipv4Header& ip) {
  return size_t{4} * (ip.version_ihl & 15U);
}

/// The checks of RFC 1812, 5.2.2: version, lengths, header checksum. The frame's first segment must
/// hold the headers. The caller checks the ethertype.
inline bool is_ipv4_valid(rte_mbuf* frame) {
  constexpr size_t kMinSize = sizeof(packet::EthernetHeader) + sizeof(packet::Ipv4Header);
  if (rte_pktmbuf_data_len(frame) < kMinSize) return false;
  const auto& ip = ipv4_of(frame);
  const size_t header = ipv4_header_size(ip);
  const size_t total = packet::swap16(ip.total_length);
  if (ip.version_ihl >> 4 != 4 || header < sizeof ip || total < header) return false;
  if (sizeof(packet::EthernetHeader) + total > rte_pktmbuf_pkt_len(frame) ||
      sizeof(packet::EthernetHeader) + header > rte_pktmbuf_data_len(frame)) {
    return false;
  }
  return packet::checksum({reinterpret_cast<const uint8_t*>(&ip), header}) == 0;
}

/// Whether the packet is a fragment other than the first: it has no transport header.
inline bool is_later_fragment(const packet::Ipv4Header& ip) {
  return (ip.fragment & packet::swap16(0x1fff)) != 0;
}

/// Whether the packet is any fragment, the first included.
inline bool is_fragment(const packet::Ipv4Header& ip) {
  return (ip.fragment & packet::swap16(0x3fff)) != 0;
}

/// The transport header and its payload, up to IPv4's total length and the end of the frame's first
/// segment.
inline std::span<uint8_t> l4_of(rte_mbuf* frame) {
  auto& ip = ipv4_of(frame);
  const size_t header = ipv4_header_size(ip);
  const size_t total = packet::swap16(ip.total_length);
  const size_t held = rte_pktmbuf_data_len(frame) - sizeof(packet::EthernetHeader);
  return {reinterpret_cast<uint8_t*>(&ip) + header, (total < held ? total : held) - header};
}

/// Decrements the TTL and updates the header checksum incrementally (RFC 1624): the TTL is the high
/// octet of its 16-bit word, so the sum of the words falls by 0x0100 in network order.
inline void decrement_ttl(packet::Ipv4Header& ip) {
  const uint32_t sum = uint32_t{ip.checksum} + packet::swap16(0x0100);
  ip.checksum = static_cast<uint16_t>(sum + (sum >= 0xffff ? 1 : 0));
  --ip.ttl;
}

}  // namespace headrace::vnf
