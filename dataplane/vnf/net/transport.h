// SPDX-License-Identifier: Apache-2.0
// The transport endpoints of an IPv4 packet: reading them, and changing address and port with every
// checksum updated incrementally (RFC 1624).
//
// An ICMP query is treated as a transport whose port, at both ends, is its identifier (RFC 5508,
// 3.1).
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <optional>

#include "vnf/net/address.h"

namespace headrace::vnf {

/// A flow's identity. Addresses and ports in host order.
struct FiveTuple {
  Ipv4Address src{0};
  Ipv4Address dst{0};
  uint16_t src_port{0};
  uint16_t dst_port{0};
  uint8_t proto{0};
  bool operator==(const FiveTuple&) const = default;

  [[nodiscard]] FiveTuple reversed() const { return {dst, src, dst_port, src_port, proto}; }
};

/// The tuple of a valid, unfragmented packet. Ports are 0 for protocols without ports; nothing if
/// the transport header is incomplete.
std::optional<FiveTuple> five_tuple_of(rte_mbuf* frame);

/// The flags octet of a TCP header; 0 for other protocols. Only after five_tuple_of().
uint8_t tcp_flags_of(rte_mbuf* frame);

inline constexpr uint8_t kTcpFin = 0x01;
inline constexpr uint8_t kTcpSyn = 0x02;
inline constexpr uint8_t kTcpRst = 0x04;
inline constexpr uint8_t kTcpAck = 0x10;

/// Whether an ICMP type is a query with an identifier: echo, timestamp, information, mask.
bool is_icmp_query(uint8_t type);

/// Which end of a packet.
enum class End : uint8_t { source, destination };

/// Changes the address and port of one end, for TCP, UDP and ICMP queries; for other protocols only
/// the address. Only after five_tuple_of().
void set_endpoint(rte_mbuf* frame, End end, Ipv4Address address, uint16_t port);

}  // namespace headrace::vnf
