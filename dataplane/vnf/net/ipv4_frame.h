// SPDX-License-Identifier: Apache-2.0
// An untagged Ethernet frame with an IPv4 packet in it, checked before it is used.
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

/// What RFC 1812, 5.2.2 demands before anything else is read: version, lengths, header checksum.
/// The frame's first segment must hold the headers. The ethertype is the caller's business.
inline bool is_ipv4_valid(rte_mbuf* frame) {
  constexpr size_t kLeast = sizeof(packet::EthernetHeader) + sizeof(packet::Ipv4Header);
  if (rte_pktmbuf_data_len(frame) < kLeast) return false;
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

/// Whether the packet is any part of a fragmented one.
inline bool is_fragment(const packet::Ipv4Header& ip) {
  return (ip.fragment & packet::swap16(0x3fff)) != 0;
}

/// The transport header and all after it, as far as IPv4's total length goes and the frame's first
/// segment holds it.
inline std::span<uint8_t> l4_of(rte_mbuf* frame) {
  auto& ip = ipv4_of(frame);
  const size_t header = ipv4_header_size(ip);
  const size_t total = packet::swap16(ip.total_length);
  const size_t held = rte_pktmbuf_data_len(frame) - sizeof(packet::EthernetHeader);
  return {reinterpret_cast<uint8_t*>(&ip) + header, (total < held ? total : held) - header};
}

/// Decrements the TTL and mends the header checksum (RFC 1624): the TTL is the high octet of its
/// 16-bit word, so the sum falls by 0x0100 in network order.
inline void decrement_ttl(packet::Ipv4Header& ip) {
  const uint32_t sum = uint32_t{ip.checksum} + packet::swap16(0x0100);
  ip.checksum = static_cast<uint16_t>(sum + (sum >= 0xffff ? 1 : 0));
  --ip.ttl;
}

}  // namespace headrace::vnf
