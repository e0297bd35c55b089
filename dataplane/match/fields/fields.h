// SPDX-License-Identifier: Apache-2.0
// The field registry: every match field that Headrace knows, and where its value lives.
//
// A packet's fields are held as FlowKey, a flat block of 64-bit words in which every field has
// its own bytes, in network byte order, as OXM carries them. A rule's match is two such blocks:
// value and mask. So one rule fits all: "does a packet match" is `(packet & mask) == value`, word
// by word; a hash key is "these words, masked"; set-field is a copy of bytes. Fields that are small
// in the packet (DSCP, PCP, an MPLS label) get whole bytes here, right-aligned in network order.
//
// Fields that share bytes cannot occur together, because OpenFlow's prerequisites exclude it:
// TCP, UDP and SCTP ports; ICMPv4 and ICMPv6 type and code; the link addresses of ARP and of
// neighbor discovery.
//
// Words are grouped so that usual pipelines touch few: an L2 key is words 0..2, an IPv4 5-tuple is
// words 3..4. The layout is internal: nothing outside the process sees it.
//
// Source: OpenFlow Switch Specification 1.3.5, section 7.2.3.7, table 12; ONF extensions EXT-109;
// tunnel addresses: Open vSwitch, ovs-fields(7).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace headrace::match {

/// All fields' values of one packet (or one match, or one mask), network byte order.
struct alignas(64) FlowKey {
  // word 0
  uint8_t eth_dst[6]{};
  uint16_t eth_type{};  ///< innermost type after VLAN tags, as OpenFlow wants it
  // word 1
  uint8_t eth_src[6]{};
  uint16_t vlan_vid{};  ///< OFPVID_PRESENT (0x1000) | VID of the outermost tag; 0 without a tag
  // word 2
  uint32_t in_port{};
  uint32_t in_phy_port{};
  // word 3
  uint32_t ipv4_src{};
  uint32_t ipv4_dst{};
  // word 4
  uint8_t ip_proto{};
  uint8_t ip_dscp{};
  uint8_t ip_ecn{};
  uint8_t vlan_pcp{};
  uint16_t l4_src{};
  uint16_t l4_dst{};
  // word 5
  uint64_t metadata{};
  // word 6
  uint64_t tunnel_id{};
  // word 7
  uint32_t mpls_label{};
  uint8_t mpls_tc{};
  uint8_t mpls_bos{};
  uint8_t icmp_type{};
  uint8_t icmp_code{};
  // word 8
  uint32_t ipv6_flabel{};
  uint16_t ipv6_exthdr{};
  uint16_t arp_op{};
  // word 9
  uint32_t pbb_isid{};  ///< 24 bits
  uint8_t pbb_uca{};
  uint8_t gtpu_qfi{};
  uint16_t tcp_flags{};
  // word 10
  uint32_t arp_spa{};
  uint32_t arp_tpa{};
  // word 11
  uint8_t link_source[6]{};  ///< arp_sha, ipv6_nd_sll
  uint16_t pad_11{};
  // word 12
  uint8_t link_target[6]{};  ///< arp_tha, ipv6_nd_tll
  uint16_t pad_12{};
  // words 13..18
  uint8_t ipv6_src[16]{};
  uint8_t ipv6_dst[16]{};
  uint8_t ipv6_nd_target[16]{};
  // words 19..23: outer addresses of the tunnel that the packet came by, or is to leave by; those
  // of the other IP version are 0
  uint32_t tun_src{};
  uint32_t tun_dst{};
  uint8_t tun_ipv6_src[16]{};
  uint8_t tun_ipv6_dst[16]{};
};

inline constexpr size_t kFieldWords = sizeof(FlowKey) / sizeof(uint64_t);
static_assert(sizeof(FlowKey) == 192, "three cache lines");
static_assert(offsetof(FlowKey, eth_src) == 8);
static_assert(offsetof(FlowKey, in_port) == 16);
static_assert(offsetof(FlowKey, ipv4_src) == 24);
static_assert(offsetof(FlowKey, ip_proto) == 32);
static_assert(offsetof(FlowKey, metadata) == 40);
static_assert(offsetof(FlowKey, tunnel_id) == 48);
static_assert(offsetof(FlowKey, ipv6_src) == 104);
static_assert(offsetof(FlowKey, tun_src) == 152);
static_assert(offsetof(FlowKey, tun_ipv6_src) == 160);
static_assert(offsetof(FlowKey, tun_ipv6_dst) == 176);

/// The first word of a tunnel's addresses, which are the last of the block.
inline constexpr size_t kTunnelAddressWord = 19;

/// Word `index` of the block, as raw bits.
inline uint64_t word(const FlowKey& values, size_t index) {
  uint64_t bits;
  std::memcpy(&bits, reinterpret_cast<const uint8_t*>(&values) + index * 8, 8);
  return bits;
}

inline void set_word(FlowKey& values, size_t index, uint64_t bits) {
  std::memcpy(reinterpret_cast<uint8_t*>(&values) + index * 8, &bits, 8);
}

/// Bit i set: word i is meant.
using WordSet = uint32_t;
inline constexpr WordSet kAllWords = ~WordSet{0};

enum class Field : uint8_t {
  in_port,
  in_phy_port,
  metadata,
  eth_dst,
  eth_src,
  eth_type,
  vlan_vid,
  vlan_pcp,
  ip_dscp,
  ip_ecn,
  ip_proto,
  ipv4_src,
  ipv4_dst,
  tcp_src,
  tcp_dst,
  udp_src,
  udp_dst,
  sctp_src,
  sctp_dst,
  icmpv4_type,
  icmpv4_code,
  arp_op,
  arp_spa,
  arp_tpa,
  arp_sha,
  arp_tha,
  ipv6_src,
  ipv6_dst,
  ipv6_flabel,
  icmpv6_type,
  icmpv6_code,
  ipv6_nd_target,
  ipv6_nd_sll,
  ipv6_nd_tll,
  mpls_label,
  mpls_tc,
  mpls_bos,
  pbb_isid,
  tunnel_id,
  ipv6_exthdr,
  pbb_uca,
  tcp_flags,
  gtpu_qfi,
  tun_src,
  tun_dst,
  tun_ipv6_src,
  tun_ipv6_dst,
  count
};

inline constexpr size_t kFieldCount = static_cast<size_t>(Field::count);

/// One field's registry entry.
struct FieldInfo {
  Field field;
  std::string_view name;  ///< as ovs-ofctl and the specification spell it
  uint16_t oxm_class;     ///< 0x8000 OpenFlow basic; 0x0001 Nicira; 0xffff experimenter
  uint8_t oxm_field;      ///< the 7-bit field number
  uint16_t bits;          ///< significant bits
  uint8_t bytes;          ///< bytes on the wire (OXM length without mask)
  uint8_t offset;         ///< where in FlowKey
  bool maskable;
  bool settable;  ///< by set-field
};

namespace detail {
#define HEADRACE_FIELD(name, member, klass, number, bits, bytes, maskable, settable)              \
  FieldInfo {                                                                                     \
    Field::name, #name, klass, number, bits, bytes, offsetof(FlowKey, member), maskable, settable \
  }
inline constexpr std::array<FieldInfo, kFieldCount> kFields = {
    HEADRACE_FIELD(in_port, in_port, 0x8000, 0, 32, 4, false, false),
    HEADRACE_FIELD(in_phy_port, in_phy_port, 0x8000, 1, 32, 4, false, false),
    HEADRACE_FIELD(metadata, metadata, 0x8000, 2, 64, 8, true, false),
    HEADRACE_FIELD(eth_dst, eth_dst, 0x8000, 3, 48, 6, true, true),
    HEADRACE_FIELD(eth_src, eth_src, 0x8000, 4, 48, 6, true, true),
    HEADRACE_FIELD(eth_type, eth_type, 0x8000, 5, 16, 2, false, true),
    HEADRACE_FIELD(vlan_vid, vlan_vid, 0x8000, 6, 13, 2, true, true),
    HEADRACE_FIELD(vlan_pcp, vlan_pcp, 0x8000, 7, 3, 1, false, true),
    HEADRACE_FIELD(ip_dscp, ip_dscp, 0x8000, 8, 6, 1, false, true),
    HEADRACE_FIELD(ip_ecn, ip_ecn, 0x8000, 9, 2, 1, false, true),
    HEADRACE_FIELD(ip_proto, ip_proto, 0x8000, 10, 8, 1, false, true),
    HEADRACE_FIELD(ipv4_src, ipv4_src, 0x8000, 11, 32, 4, true, true),
    HEADRACE_FIELD(ipv4_dst, ipv4_dst, 0x8000, 12, 32, 4, true, true),
    HEADRACE_FIELD(tcp_src, l4_src, 0x8000, 13, 16, 2, true, true),
    HEADRACE_FIELD(tcp_dst, l4_dst, 0x8000, 14, 16, 2, true, true),
    HEADRACE_FIELD(udp_src, l4_src, 0x8000, 15, 16, 2, true, true),
    HEADRACE_FIELD(udp_dst, l4_dst, 0x8000, 16, 16, 2, true, true),
    HEADRACE_FIELD(sctp_src, l4_src, 0x8000, 17, 16, 2, true, true),
    HEADRACE_FIELD(sctp_dst, l4_dst, 0x8000, 18, 16, 2, true, true),
    HEADRACE_FIELD(icmpv4_type, icmp_type, 0x8000, 19, 8, 1, false, true),
    HEADRACE_FIELD(icmpv4_code, icmp_code, 0x8000, 20, 8, 1, false, true),
    HEADRACE_FIELD(arp_op, arp_op, 0x8000, 21, 16, 2, false, true),
    HEADRACE_FIELD(arp_spa, arp_spa, 0x8000, 22, 32, 4, true, true),
    HEADRACE_FIELD(arp_tpa, arp_tpa, 0x8000, 23, 32, 4, true, true),
    HEADRACE_FIELD(arp_sha, link_source, 0x8000, 24, 48, 6, true, true),
    HEADRACE_FIELD(arp_tha, link_target, 0x8000, 25, 48, 6, true, true),
    HEADRACE_FIELD(ipv6_src, ipv6_src, 0x8000, 26, 128, 16, true, true),
    HEADRACE_FIELD(ipv6_dst, ipv6_dst, 0x8000, 27, 128, 16, true, true),
    HEADRACE_FIELD(ipv6_flabel, ipv6_flabel, 0x8000, 28, 20, 4, true, true),
    HEADRACE_FIELD(icmpv6_type, icmp_type, 0x8000, 29, 8, 1, false, true),
    HEADRACE_FIELD(icmpv6_code, icmp_code, 0x8000, 30, 8, 1, false, true),
    HEADRACE_FIELD(ipv6_nd_target, ipv6_nd_target, 0x8000, 31, 128, 16, false, true),
    HEADRACE_FIELD(ipv6_nd_sll, link_source, 0x8000, 32, 48, 6, false, true),
    HEADRACE_FIELD(ipv6_nd_tll, link_target, 0x8000, 33, 48, 6, false, true),
    HEADRACE_FIELD(mpls_label, mpls_label, 0x8000, 34, 20, 4, false, true),
    HEADRACE_FIELD(mpls_tc, mpls_tc, 0x8000, 35, 3, 1, false, true),
    HEADRACE_FIELD(mpls_bos, mpls_bos, 0x8000, 36, 1, 1, false, true),
    HEADRACE_FIELD(pbb_isid, pbb_isid, 0x8000, 37, 24, 3, true, true),
    HEADRACE_FIELD(tunnel_id, tunnel_id, 0x8000, 38, 64, 8, true, true),
    HEADRACE_FIELD(ipv6_exthdr, ipv6_exthdr, 0x8000, 39, 9, 2, true, false),
    HEADRACE_FIELD(pbb_uca, pbb_uca, 0x8000, 41, 1, 1, false, true),
    HEADRACE_FIELD(tcp_flags, tcp_flags, 0xffff, 42, 12, 2, true, false),
    HEADRACE_FIELD(gtpu_qfi, gtpu_qfi, 0xffff, 0, 6, 1, false, true),
    // Nicira's NXM numbers, which ovs-ofctl uses for them in OpenFlow 1.3, too.
    HEADRACE_FIELD(tun_src, tun_src, 0x0001, 31, 32, 4, true, true),
    HEADRACE_FIELD(tun_dst, tun_dst, 0x0001, 32, 32, 4, true, true),
    HEADRACE_FIELD(tun_ipv6_src, tun_ipv6_src, 0x0001, 109, 128, 16, true, true),
    HEADRACE_FIELD(tun_ipv6_dst, tun_ipv6_dst, 0x0001, 110, 128, 16, true, true),
};
#undef HEADRACE_FIELD

constexpr bool indices_agree() {
  for (size_t i = 0; i < kFieldCount; ++i) {
    if (static_cast<size_t>(kFields[i].field) != i) return false;
  }
  return true;
}
static_assert(indices_agree());
}  // namespace detail

/// The registry entry of `field`.
constexpr const FieldInfo& info(Field field) {
  return detail::kFields[static_cast<size_t>(field)];
}

/// The field of a basic-class OXM number; nothing if it is unknown.
constexpr std::optional<Field> field_by_oxm(uint16_t oxm_class, uint8_t oxm_field) {
  for (const FieldInfo& entry : detail::kFields) {
    if (entry.oxm_class == oxm_class && entry.oxm_field == oxm_field) return entry.field;
  }
  return std::nullopt;
}

/// Copies `bytes` octets of a field's value, network order, to its place. A 3-byte PBB I-SID lands
/// right-aligned in its 4-byte slot.
inline void store(FlowKey& values, Field field, const uint8_t* from) {
  const FieldInfo& entry = info(field);
  const size_t shift = field == Field::pbb_isid ? 1 : 0;
  std::memcpy(reinterpret_cast<uint8_t*>(&values) + entry.offset + shift, from, entry.bytes);
}

/// The reverse of store(): the field's value as OXM carries it.
inline void load(const FlowKey& values, Field field, uint8_t* to) {
  const FieldInfo& entry = info(field);
  const size_t shift = field == Field::pbb_isid ? 1 : 0;
  std::memcpy(to, reinterpret_cast<const uint8_t*>(&values) + entry.offset + shift, entry.bytes);
}

}  // namespace headrace::match
