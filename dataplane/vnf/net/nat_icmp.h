// SPDX-License-Identifier: Apache-2.0
// The packet quoted in an ICMP error (RFC 792): what a NAT must read and change in it (RFC 5508,
// 4.2).
#pragma once

#include <rte_mbuf.h>

#include <optional>

#include "vnf/net/transport.h"

namespace headrace::vnf {

/// The endpoints of the packet that an ICMP error quotes: its IPv4 header and the 8 octets after
/// it. Nothing if less than that is there, for fragments after the first, and for ICMP other than
/// queries.
std::optional<FiveTuple> quoted_endpoints(rte_mbuf* frame);

/// Changes an end of the quoted packet, and the ICMP checksum over it all. Only after
/// quoted_endpoints(). The quoted transport's own checksum changes where the quote has it (UDP).
void translate_quoted(rte_mbuf* frame, End end, Ipv4Address address, uint16_t port);

/// Changes an address of the outer header, and its checksum.
void set_address(rte_mbuf* frame, End end, Ipv4Address address);

}  // namespace headrace::vnf
