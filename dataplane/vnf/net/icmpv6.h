// SPDX-License-Identifier: Apache-2.0
// ICMPv6 (RFC 4443) and neighbor discovery (RFC 4861) as a router must implement them.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <optional>

#include "vnf/net/ipv6_address.h"

namespace headrace::vnf {

inline constexpr uint8_t kIcmpv6Unreachable = 1;
inline constexpr uint8_t kIcmpv6PacketTooBig = 2;
inline constexpr uint8_t kIcmpv6TimeExceeded = 3;
inline constexpr uint8_t kIcmpv6ParameterProblem = 4;

/// Codes of kIcmpv6Unreachable.
inline constexpr uint8_t kIcmpv6NoRoute = 0;
inline constexpr uint8_t kIcmpv6AddressUnreachable = 3;
inline constexpr uint8_t kIcmpv6PortUnreachable = 4;
/// Code of kIcmpv6ParameterProblem.
inline constexpr uint8_t kIcmpv6UnknownNextHeader = 1;

/// Whether RFC 4443, 2.4(e) allows an error of this type about this frame: not about an ICMPv6
/// error, nor to a source that is not a single host; about multicasts only "packet too big".
bool may_cause_icmpv6_error(rte_mbuf* frame, uint8_t type);

/// Makes the IPv6 packet of an error about `about`, from `source` to its sender, quoting as much of
/// it as 1280 octets allow. `word` is the MTU of kIcmpv6PacketTooBig or the pointer of a parameter
/// problem. The Ethernet addresses aren't set. Null if the pool is empty.
rte_mbuf* make_icmpv6_error(rte_mempool* pool, rte_mbuf* about, const Ipv6Address& source,
                            uint8_t type, uint8_t code, uint32_t word = 0);

/// Rewrites a valid echo request in place to its reply from `own`: hop limit 64. False, and no
/// effect, if it isn't a complete echo request with a correct checksum.
bool answer_echo_v6(rte_mbuf* frame, const Ipv6Address& own);

/// A neighbor solicitation or advertisement that is valid by RFC 4861, 7.1.
struct NeighborMessage {
  bool solicitation;
  bool solicited;  ///< an advertisement's S flag
  bool override;   ///< an advertisement's O flag
  Ipv6Address sender;
  Ipv6Address target;
  std::optional<MacAddress> link_address;  ///< the option: of the sender, or of the target
};

/// Parses such a message; nothing if it is another or invalid.
std::optional<NeighborMessage> read_neighbor_message(rte_mbuf* frame);

/// The address pair of one end.
struct NdEnd {
  MacAddress mac;
  Ipv6Address address;
};

/// A complete frame in which `own` solicits `target`; null if the pool is empty.
rte_mbuf* make_neighbor_solicitation(rte_mempool* pool, const NdEnd& own,
                                     const Ipv6Address& target);
/// A neighbor advertisement of `own` to `to`; to all nodes if the solicitation had no source
/// address (RFC 4861, 7.2.4). Null if the pool is empty.
rte_mbuf* make_neighbor_advertisement(rte_mempool* pool, const NdEnd& own, const Ipv6Address& to,
                                      const uint8_t* to_mac);

}  // namespace headrace::vnf
