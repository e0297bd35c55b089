// SPDX-License-Identifier: Apache-2.0
// Where the headers of a packet are.
//
// What: parse() walks Ethernet, VLAN tags, then MPLS, a PBB I-TAG, ARP, IPv4 or IPv6 (with its
// extension headers), and finds the L4 header. The result is offsets and flags, no values:
// match/extract reads values where parse() says that they are, packet/edit writes there.
//
// Trust: nothing. parse() reads only bytes of the span it is given, the linear first segment of
// the packet. What is cut off or contradicts itself is absent: its offset is 0, and a reason bit
// says why. So a set offset promises that the whole fixed header there lies inside the span.
//
// Fragments: a later fragment has an L3 header and no L4 header. MPLS: nothing below the label
// stack is parsed, as OpenFlow 1.3 (7.2.3.8, prerequisites) wants it.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "packet/headers.h"

namespace headrace::packet {

/// How far to parse. Each depth includes those before it.
enum class Depth : uint8_t {
  l2,    ///< Ethernet and VLAN tags
  l3,    ///< addresses, protocol, DSCP of IP; offsets of L3
  l4,    ///< ports; offset of L4
  full,  ///< everything: MPLS, PBB, ARP, ND, extension header bits
};

/// Bits of ParsedPacket::flags.
enum ParseFlag : uint16_t {
  kIpv4 = 1 << 0,           ///< l3 is an IPv4 header
  kIpv6 = 1 << 1,           ///< l3 is an IPv6 header
  kArp = 1 << 2,            ///< l3 is an ARP header, IPv4 over Ethernet
  kMpls = 1 << 3,           ///< a label stack entry lies at l2_end
  kPbb = 1 << 4,            ///< an I-TAG lies at l2_end
  kFragment = 1 << 5,       ///< any fragment, the first included
  kLaterFragment = 1 << 6,  ///< a fragment with an offset above 0
  // Why something that the type announced is absent:
  kTruncatedL2 = 1 << 8,   ///< Ethernet header, VLAN tag, MPLS entry or I-TAG cut off
  kTruncatedL3 = 1 << 9,   ///< ARP, IPv4 or IPv6 header cut off
  kBadL3 = 1 << 10,        ///< wrong version, header length below 20, total length below it
  kTruncatedL4 = 1 << 11,  ///< L4 header, or an extension header before it, cut off
  kMalformed = kTruncatedL2 | kTruncatedL3 | kBadL3 | kTruncatedL4,
};

/// Offsets into the first segment. 0 means absent (no header but Ethernet's own begins at 0).
struct ParsedPacket {
  uint16_t l2_end{0};         ///< past Ethernet and VLAN tags
  uint16_t l3{0};             ///< ARP, IPv4 or IPv6 header (see flags)
  uint16_t l4{0};             ///< L4 header, present with its fixed part
  uint16_t eth_type{0};       ///< network order, after the VLAN tags
  uint16_t flags{0};          ///< ParseFlag
  uint16_t ipv6_exthdr{0};    ///< OFPIEH bits, host order; depth full only
  uint8_t ip_proto{0};        ///< after IPv6 extension headers
  uint8_t vlan_tags{0};       ///< all of them
  uint8_t nd_source_link{0};  ///< offset from l4 of the source link-layer address; depth full only
  uint8_t nd_target_link{0};  ///< the same for the target's

  [[nodiscard]] bool has(uint16_t flag) const { return (flags & flag) != 0; }
};
static_assert(sizeof(ParsedPacket) == 16);

// Extension header bits: OpenFlow 1.3.5, 7.2.3.8, ofp_ipv6exthdr_flags.
inline constexpr uint16_t kExthdrNoNext = 1 << 0;
inline constexpr uint16_t kExthdrEsp = 1 << 1;
inline constexpr uint16_t kExthdrAuth = 1 << 2;
inline constexpr uint16_t kExthdrDest = 1 << 3;
inline constexpr uint16_t kExthdrFragment = 1 << 4;
inline constexpr uint16_t kExthdrRouter = 1 << 5;
inline constexpr uint16_t kExthdrHop = 1 << 6;
inline constexpr uint16_t kExthdrUnrepeated = 1 << 7;
inline constexpr uint16_t kExthdrUnsequenced = 1 << 8;

/// VLAN tags beyond this many are treated as payload of an unknown type.
inline constexpr uint8_t kMaxVlanTags = 4;

/// Parses the linear first segment of a packet, at most 65535 bytes of it.
[[nodiscard]] ParsedPacket parse(std::span<const uint8_t> frame, Depth depth) noexcept;

/// True for the tag types that OpenFlow 1.3 knows: 0x8100 and 0x88a8. `type` in network order.
constexpr bool is_vlan_type(uint16_t type) {
  return type == kTypeVlan || type == kTypeQinQ;
}

/// The fixed part of an L4 header that must be there for its fields to exist; 0 for protocols
/// without one that Headrace knows.
constexpr size_t l4_header_size(uint8_t proto) {
  switch (proto) {
    case kProtoTcp:
      return sizeof(TcpHeader);
    case kProtoUdp:
      return sizeof(UdpHeader);
    case kProtoSctp:
      return sizeof(SctpHeader);
    case kProtoIcmp:
    case kProtoIcmpv6:
      return sizeof(IcmpHeader);
    default:
      return 0;
  }
}

}  // namespace headrace::packet
