// SPDX-License-Identifier: Apache-2.0
// The headers on the wire, as packed structs. Multi-byte members are in network order; read and
// write them through packet/bytes.h or swap16()/swap32().
//
// A struct here is a map of offsets and sizes: every one is pinned by static_assert to its RFC or
// IEEE standard, and the parser takes its lengths from sizeof.
#pragma once

#include <cstddef>
#include <cstdint>

#include "packet/bytes.h"

namespace headrace::packet {

// Ethertypes in network order, ready to compare with raw packet bytes.
inline constexpr uint16_t kTypeIpv4 = swap16(0x0800);
inline constexpr uint16_t kTypeArp = swap16(0x0806);
inline constexpr uint16_t kTypeVlan = swap16(0x8100);  ///< C-TAG, IEEE 802.1Q
inline constexpr uint16_t kTypeIpv6 = swap16(0x86dd);
inline constexpr uint16_t kTypeMpls = swap16(0x8847);
inline constexpr uint16_t kTypeMplsMulticast = swap16(0x8848);
inline constexpr uint16_t kTypeQinQ = swap16(0x88a8);  ///< S-TAG or B-TAG, IEEE 802.1ad/ah
inline constexpr uint16_t kTypePbb = swap16(0x88e7);   ///< I-TAG, IEEE 802.1ah

// IP protocol numbers (IANA "Assigned Internet Protocol Numbers").
inline constexpr uint8_t kProtoHopByHop = 0;
inline constexpr uint8_t kProtoIcmp = 1;
inline constexpr uint8_t kProtoTcp = 6;
inline constexpr uint8_t kProtoUdp = 17;
inline constexpr uint8_t kProtoRouting = 43;
inline constexpr uint8_t kProtoFragment = 44;
inline constexpr uint8_t kProtoGre = 47;
inline constexpr uint8_t kProtoEsp = 50;
inline constexpr uint8_t kProtoAuth = 51;
inline constexpr uint8_t kProtoIcmpv6 = 58;
inline constexpr uint8_t kProtoNoNext = 59;
inline constexpr uint8_t kProtoDestOptions = 60;
inline constexpr uint8_t kProtoSctp = 132;

// UDP destination ports of tunnels.
inline constexpr uint16_t kPortVxlan = 4789;
inline constexpr uint16_t kPortGtpu = 2152;

struct __attribute__((packed)) EthernetHeader {
  uint8_t dst[6];
  uint8_t src[6];
  uint16_t type;
};
static_assert(sizeof(EthernetHeader) == 14);

/// A tag as it follows the addresses: IEEE 802.1Q-2018, 9.6.
struct __attribute__((packed)) VlanTag {
  uint16_t tpid;
  uint16_t tci;  ///< PCP 3, DEI 1, VID 12
};
static_assert(sizeof(VlanTag) == 4);

/// The I-TAG TCI after type 0x88e7: IEEE 802.1Q-2018, 9.7. The customer frame follows.
struct __attribute__((packed)) PbbITag {
  uint32_t tci;  ///< I-PCP 3, I-DEI 1, UCA 1, reserved 3, I-SID 24
};
static_assert(sizeof(PbbITag) == 4);

/// What push-PBB puts in front: backbone addresses, type, I-TAG.
inline constexpr size_t kPbbEncapsulation = sizeof(EthernetHeader) + sizeof(PbbITag);
static_assert(kPbbEncapsulation == 18);

/// A label stack entry: RFC 3032, 2.1.
struct __attribute__((packed)) MplsEntry {
  uint32_t entry;  ///< label 20, TC 3, BOS 1, TTL 8
};
static_assert(sizeof(MplsEntry) == 4);

/// ARP for IPv4 over Ethernet: RFC 826.
struct __attribute__((packed)) ArpHeader {
  uint16_t hardware_type;
  uint16_t protocol_type;
  uint8_t hardware_length;
  uint8_t protocol_length;
  uint16_t operation;
  uint8_t sender_mac[6];
  uint32_t sender_ip;
  uint8_t target_mac[6];
  uint32_t target_ip;
};
static_assert(sizeof(ArpHeader) == 28);
static_assert(offsetof(ArpHeader, sender_ip) == 14);

/// RFC 791, 3.1.
struct __attribute__((packed)) Ipv4Header {
  uint8_t version_ihl;
  uint8_t tos;  ///< DSCP 6, ECN 2 (RFC 2474, RFC 3168)
  uint16_t total_length;
  uint16_t id;
  uint16_t fragment;  ///< reserved, DF, MF, offset 13
  uint8_t ttl;
  uint8_t proto;
  uint16_t checksum;
  uint32_t src;
  uint32_t dst;
};
static_assert(sizeof(Ipv4Header) == 20);
static_assert(offsetof(Ipv4Header, src) == 12);

/// RFC 8200, 3.
struct __attribute__((packed)) Ipv6Header {
  uint32_t version_class_flow;  ///< version 4, traffic class 8, flow label 20
  uint16_t payload_length;
  uint8_t next_header;
  uint8_t hop_limit;
  uint8_t src[16];
  uint8_t dst[16];
};
static_assert(sizeof(Ipv6Header) == 40);

/// The start that hop-by-hop, routing and destination options share: RFC 8200, 4.3. Its length is
/// (length + 1) * 8 octets; of an authentication header (RFC 4302, 2.2), (length + 2) * 4.
struct __attribute__((packed)) Ipv6Extension {
  uint8_t next_header;
  uint8_t length;
};
static_assert(sizeof(Ipv6Extension) == 2);

/// RFC 8200, 4.5.
struct __attribute__((packed)) Ipv6Fragment {
  uint8_t next_header;
  uint8_t reserved;
  uint16_t offset_more;  ///< offset 13, reserved 2, M 1
  uint32_t id;
};
static_assert(sizeof(Ipv6Fragment) == 8);

/// RFC 9293, 3.1.
struct __attribute__((packed)) TcpHeader {
  uint16_t src_port;
  uint16_t dst_port;
  uint32_t sequence;
  uint32_t acknowledgment;
  uint16_t offset_flags;  ///< data offset 4, flags 12
  uint16_t window;
  uint16_t checksum;
  uint16_t urgent;
};
static_assert(sizeof(TcpHeader) == 20);
static_assert(offsetof(TcpHeader, checksum) == 16);

/// RFC 768.
struct __attribute__((packed)) UdpHeader {
  uint16_t src_port;
  uint16_t dst_port;
  uint16_t length;
  uint16_t checksum;  ///< 0: not computed (IPv4 only)
};
static_assert(sizeof(UdpHeader) == 8);

/// RFC 9260, 3.1.
struct __attribute__((packed)) SctpHeader {
  uint16_t src_port;
  uint16_t dst_port;
  uint32_t verification_tag;
  uint32_t checksum;  ///< CRC32c over the whole SCTP packet, least significant octet first
};
static_assert(sizeof(SctpHeader) == 12);

/// ICMP (RFC 792) and ICMPv6 (RFC 4443, 2.1) begin alike.
struct __attribute__((packed)) IcmpHeader {
  uint8_t type;
  uint8_t code;
  uint16_t checksum;
};
static_assert(sizeof(IcmpHeader) == 4);

inline constexpr uint8_t kIcmpv6NeighborSolicitation = 135;
inline constexpr uint8_t kIcmpv6NeighborAdvertisement = 136;

/// Neighbor solicitation or advertisement: RFC 4861, 4.3 and 4.4. Options follow.
struct __attribute__((packed)) NeighborDiscovery {
  IcmpHeader icmp;
  uint32_t flags;
  uint8_t target[16];
};
static_assert(sizeof(NeighborDiscovery) == 24);

/// RFC 4861, 4.6: `length` counts units of 8 octets, this header included.
struct __attribute__((packed)) NdOption {
  uint8_t type;
  uint8_t length;
};
static_assert(sizeof(NdOption) == 2);

inline constexpr uint8_t kNdSourceLinkAddress = 1;
inline constexpr uint8_t kNdTargetLinkAddress = 2;
/// A link-layer address option with an Ethernet address: RFC 2464, 6.
inline constexpr size_t kNdLinkAddressOption = 8;

/// RFC 7348, 5.
struct __attribute__((packed)) VxlanHeader {
  uint32_t flags;  ///< I flag 0x08000000
  uint32_t vni;    ///< VNI 24, reserved 8
};
static_assert(sizeof(VxlanHeader) == 8);
inline constexpr uint32_t kVxlanVniPresent = 0x08000000;

/// RFC 2784, 2 and RFC 2890: checksum, key and sequence follow as the flags say.
struct __attribute__((packed)) GreHeader {
  uint16_t flags_version;
  uint16_t protocol;
};
static_assert(sizeof(GreHeader) == 4);
inline constexpr uint16_t kGreChecksum = 0x8000;
inline constexpr uint16_t kGreKey = 0x2000;
inline constexpr uint16_t kGreSequence = 0x1000;

/// 3GPP TS 29.281, 5.1. If any of E, S, PN is set, GtpuOptional follows.
struct __attribute__((packed)) GtpuHeader {
  uint8_t flags;  ///< version 3 (1), PT 1, reserved 1, E 1, S 1, PN 1
  uint8_t message_type;
  uint16_t length;  ///< octets after this header
  uint32_t teid;
};
static_assert(sizeof(GtpuHeader) == 8);
struct __attribute__((packed)) GtpuOptional {
  uint16_t sequence;
  uint8_t n_pdu;
  uint8_t next_extension;
};
static_assert(sizeof(GtpuOptional) == 4);
inline constexpr uint8_t kGtpuFlags = 0x30;  ///< version 1, PT
inline constexpr uint8_t kGtpuExtension = 0x04;
inline constexpr uint8_t kGtpuSequence = 0x02;
inline constexpr uint8_t kGtpuNPdu = 0x01;
inline constexpr uint8_t kGtpuMessageGpdu = 255;
/// PDU session container, which carries the QFI: 3GPP TS 38.415, 5.5.2.
inline constexpr uint8_t kGtpuPduSession = 0x85;

}  // namespace headrace::packet
