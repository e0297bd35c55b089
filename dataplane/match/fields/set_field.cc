// SPDX-License-Identifier: Apache-2.0
#include "match/fields/set_field.h"

#include "match/fields/extract.h"
#include "packet/edit.h"

namespace headrace::match {
namespace {

using packet::ParsedPacket;

/// A setter of packet/edit.h that needs no protocol.
using Setter = bool (*)(rte_mbuf*, const ParsedPacket&, const uint8_t*);
/// One that is told the protocol which its field belongs to.
using L4Setter = bool (*)(rte_mbuf*, const ParsedPacket&, uint8_t, const uint8_t*);

template <Field field, Setter setter>
bool set(rte_mbuf* packet, ParsedPacket& parsed, FlowKey& values, const uint8_t* value) noexcept {
  if (!setter(packet, parsed, value)) return false;
  store(values, field, value);
  return true;
}

template <Field field, uint8_t proto, L4Setter setter>
bool set(rte_mbuf* packet, ParsedPacket& parsed, FlowKey& values, const uint8_t* value) noexcept {
  if (!setter(packet, parsed, proto, value)) return false;
  store(values, field, value);
  return true;
}

/// For fields that decide what the bytes behind them are: everything is read again.
template <Setter setter>
bool set_and_refresh(rte_mbuf* packet, ParsedPacket& parsed, FlowKey& values,
                     const uint8_t* value) noexcept {
  if (!setter(packet, parsed, value)) return false;
  refresh(Depth::full, packet, values, parsed);
  return true;
}

/// The type of an ICMPv6 message decides whether it has a neighbor discovery target and options.
bool set_icmpv6_type(rte_mbuf* packet, ParsedPacket& parsed, FlowKey& values,
                     const uint8_t* value) noexcept {
  if (!packet::set_icmp_type(packet, parsed, packet::kProtoIcmpv6, value)) return false;
  refresh(Depth::full, packet, values, parsed);
  return true;
}

/// OFPVID_PRESENT stays set in the FlowKey, whatever the value says (7.2.3.7).
bool set_vid(rte_mbuf* packet, ParsedPacket& parsed, FlowKey& values,
             const uint8_t* value) noexcept {
  if (!packet::set_vlan_vid(packet, parsed, value)) return false;
  const auto vid = static_cast<uint16_t>((packet::load_be16(value) & 0x0fff) | 0x1000);
  values.vlan_vid = packet::swap16(vid);
  return true;
}

/// What the packet itself has no place for.
template <Field field>
bool set_value(rte_mbuf*, ParsedPacket&, FlowKey& values, const uint8_t* value) noexcept {
  store(values, field, value);
  return true;
}

}  // namespace

SetField set_field_for(Field field) noexcept {
  using namespace packet;
  switch (field) {
    case Field::eth_dst:
      return set<Field::eth_dst, set_eth_dst>;
    case Field::eth_src:
      return set<Field::eth_src, set_eth_src>;
    case Field::eth_type:
      return set_and_refresh<set_eth_type>;
    case Field::vlan_vid:
      return set_vid;
    case Field::vlan_pcp:
      return set<Field::vlan_pcp, set_vlan_pcp>;
    case Field::ip_dscp:
      return set<Field::ip_dscp, set_ip_dscp>;
    case Field::ip_ecn:
      return set<Field::ip_ecn, set_ip_ecn>;
    case Field::ip_proto:
      return set_and_refresh<set_ip_proto>;
    case Field::ipv4_src:
      return set<Field::ipv4_src, set_ipv4_src>;
    case Field::ipv4_dst:
      return set<Field::ipv4_dst, set_ipv4_dst>;
    case Field::tcp_src:
      return set<Field::tcp_src, kProtoTcp, set_l4_src>;
    case Field::tcp_dst:
      return set<Field::tcp_dst, kProtoTcp, set_l4_dst>;
    case Field::udp_src:
      return set<Field::udp_src, kProtoUdp, set_l4_src>;
    case Field::udp_dst:
      return set<Field::udp_dst, kProtoUdp, set_l4_dst>;
    case Field::sctp_src:
      return set<Field::sctp_src, kProtoSctp, set_l4_src>;
    case Field::sctp_dst:
      return set<Field::sctp_dst, kProtoSctp, set_l4_dst>;
    case Field::icmpv4_type:
      return set<Field::icmpv4_type, kProtoIcmp, set_icmp_type>;
    case Field::icmpv4_code:
      return set<Field::icmpv4_code, kProtoIcmp, set_icmp_code>;
    case Field::icmpv6_type:
      return set_icmpv6_type;
    case Field::icmpv6_code:
      return set<Field::icmpv6_code, kProtoIcmpv6, set_icmp_code>;
    case Field::arp_op:
      return set<Field::arp_op, set_arp_op>;
    case Field::arp_spa:
      return set<Field::arp_spa, set_arp_spa>;
    case Field::arp_tpa:
      return set<Field::arp_tpa, set_arp_tpa>;
    case Field::arp_sha:
      return set<Field::arp_sha, set_arp_sha>;
    case Field::arp_tha:
      return set<Field::arp_tha, set_arp_tha>;
    case Field::ipv6_src:
      return set<Field::ipv6_src, set_ipv6_src>;
    case Field::ipv6_dst:
      return set<Field::ipv6_dst, set_ipv6_dst>;
    case Field::ipv6_flabel:
      return set<Field::ipv6_flabel, set_ipv6_flabel>;
    case Field::ipv6_nd_target:
      return set<Field::ipv6_nd_target, set_nd_target>;
    case Field::ipv6_nd_sll:
      return set<Field::ipv6_nd_sll, set_nd_sll>;
    case Field::ipv6_nd_tll:
      return set<Field::ipv6_nd_tll, set_nd_tll>;
    case Field::mpls_label:
      return set<Field::mpls_label, set_mpls_label>;
    case Field::mpls_tc:
      return set<Field::mpls_tc, set_mpls_tc>;
    case Field::mpls_bos:
      return set<Field::mpls_bos, set_mpls_bos>;
    case Field::pbb_isid:
      return set<Field::pbb_isid, set_pbb_isid>;
    case Field::pbb_uca:
      return set<Field::pbb_uca, set_pbb_uca>;
    case Field::tunnel_id:
      return set_value<Field::tunnel_id>;
    case Field::tun_src:
      return set_value<Field::tun_src>;
    case Field::tun_dst:
      return set_value<Field::tun_dst>;
    case Field::tun_ipv6_src:
      return set_value<Field::tun_ipv6_src>;
    case Field::tun_ipv6_dst:
      return set_value<Field::tun_ipv6_dst>;
    default:
      return nullptr;  // not settable (info(field).settable), or no header here carries it
  }
}

WordSet words_of_set_field(Field field) noexcept {
  constexpr WordSet kEverything = 1u << 8;  // a word that only depth full fills
  constexpr WordSet kIpAndL4 = 1u << 3 | 1u << 4;
  switch (field) {
    case Field::eth_type:
    case Field::ip_proto:
      return kEverything;
    case Field::ip_dscp:
    case Field::ip_ecn:
      return 1u << 3;
    case Field::ipv4_src:
    case Field::ipv4_dst:
    case Field::tcp_src:
    case Field::tcp_dst:
    case Field::udp_src:
    case Field::udp_dst:
    case Field::sctp_src:
    case Field::sctp_dst:
      return kIpAndL4;
    case Field::vlan_pcp:
      return 1u << 1;
    default:
      return 1u << (info(field).offset / 8);
  }
}

}  // namespace headrace::match
