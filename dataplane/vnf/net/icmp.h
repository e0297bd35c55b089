// SPDX-License-Identifier: Apache-2.0
// ICMP for IPv4 (RFC 792) as a router must implement it (RFC 1812, 4.3).
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "vnf/net/address.h"

namespace headrace::vnf {

inline constexpr uint8_t kIcmpEchoReply = 0;
inline constexpr uint8_t kIcmpUnreachable = 3;
inline constexpr uint8_t kIcmpEchoRequest = 8;
inline constexpr uint8_t kIcmpTimeExceeded = 11;

/// Codes of kIcmpUnreachable.
inline constexpr uint8_t kIcmpNetUnreachable = 0;
inline constexpr uint8_t kIcmpHostUnreachable = 1;
inline constexpr uint8_t kIcmpProtocolUnreachable = 2;
inline constexpr uint8_t kIcmpPortUnreachable = 3;
inline constexpr uint8_t kIcmpFragmentationNeeded = 4;

/// Whether RFC 1812, 4.3.2.7 allows an error about this frame: not about an ICMP error, a fragment
/// other than the first, a broadcast or multicast (on either layer), or a source that is not a
/// single host.
bool may_cause_icmp_error(rte_mbuf* frame);

/// Makes the IPv4 packet of an ICMP error about `about`, from `source` to its sender, quoting as
/// much of it as 576 octets allow (RFC 1812, 4.3.2.3). `mtu` is for kIcmpFragmentationNeeded (RFC
/// 1191). The Ethernet header's addresses aren't set. Null if the pool is empty.
rte_mbuf* make_icmp_error(rte_mempool* pool, rte_mbuf* about, Ipv4Address source, uint8_t type,
                          uint8_t code, uint16_t mtu = 0);

/// Rewrites a valid echo request in place to its reply: addresses swapped, TTL 64. False, and no
/// effect, if it isn't a complete echo request with a correct checksum.
bool answer_echo(rte_mbuf* frame);

}  // namespace headrace::vnf
