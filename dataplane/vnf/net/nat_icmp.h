// SPDX-License-Identifier: Apache-2.0
// The packet quoted in an ICMP error (RFC 792), which a NAT must translate too (RFC 5508, 4.2).
#pragma once

#include <rte_mbuf.h>

#include <optional>

#include "vnf/net/transport.h"

namespace headrace::vnf {

/// The endpoints of the packet that an ICMP error quotes: its IPv4 header and the 8 octets after
/// it. Nothing if the quote is shorter, for fragments other than the first, and for ICMP messages
/// other than queries.
std::optional<FiveTuple> quoted_endpoints(rte_mbuf* frame);

/// Changes one end of the quoted packet, and updates the ICMP checksum. Only after
/// quoted_endpoints(). The quoted transport checksum is updated if the quote includes it (UDP).
void translate_quoted(rte_mbuf* frame, End end, Ipv4Address address, uint16_t port);

/// Changes an address of the outer header, and updates its checksum.
void set_address(rte_mbuf* frame, End end, Ipv4Address address);

}  // namespace headrace::vnf
