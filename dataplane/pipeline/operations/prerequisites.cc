// SPDX-License-Identifier: Apache-2.0
#include "pipeline/operations/prerequisites.h"

#include <algorithm>
#include <array>

namespace headrace::pipeline {
namespace {

using match::Field;

constexpr uint16_t kIpv4 = 0x0800;
constexpr uint16_t kArp = 0x0806;
constexpr uint16_t kRarp = 0x8035;
constexpr uint16_t kIpv6 = 0x86dd;
constexpr uint16_t kMpls = 0x8847;
constexpr uint16_t kMplsMulticast = 0x8848;
constexpr uint16_t kPbb = 0x88e7;
constexpr uint16_t kVidPresent = 0x1000;
constexpr uint8_t kNeighborSolicitation = 135;
constexpr uint8_t kNeighborAdvertisement = 136;

uint16_t host16(const std::array<uint8_t, 16>& value) {
  return static_cast<uint16_t>(value[0] << 8 | value[1]);
}

bool is_mpls(const KnownHeaders& known) {
  return known.eth_type == kMpls || known.eth_type == kMplsMulticast;
}

}  // namespace

void KnownHeaders::learn(const match::MatchField& field) {
  if (field.field == Field::vlan_vid) {
    vlan = (host16(field.value) & host16(field.mask) & kVidPresent) != 0;
    return;
  }
  learn_value(field.field, field.value);
}

void KnownHeaders::learn_value(Field field, const std::array<uint8_t, 16>& value) {
  switch (field) {
    case Field::in_port:
      in_port = true;
      break;
    case Field::eth_type:
      eth_type = host16(value);
      break;
    case Field::ip_proto:
      ip_proto = value[0];
      break;
    case Field::icmpv4_type:
    case Field::icmpv6_type:
      icmp_type = value[0];
      break;
    default:
      break;
  }
}

void KnownHeaders::forget_payload() {
  ip_proto.reset();
  icmp_type.reset();
}

KnownHeaders KnownHeaders::of(const match::Match& match) {
  KnownHeaders known;
  for (const match::MatchField& field : match.fields) known.learn(field);
  return known;
}

bool prerequisites_met(Field field, const KnownHeaders& known) {
  const bool ip = known.eth_type == kIpv4 || known.eth_type == kIpv6;
  switch (field) {
    case Field::in_phy_port:
      return known.in_port;
    case Field::vlan_pcp:
      return known.vlan;
    case Field::ip_dscp:
    case Field::ip_ecn:
    case Field::ip_proto:
      return ip;
    case Field::ipv4_src:
    case Field::ipv4_dst:
      return known.eth_type == kIpv4;
    case Field::tcp_src:
    case Field::tcp_dst:
    case Field::tcp_flags:
      return ip && known.ip_proto == 6;
    case Field::udp_src:
    case Field::udp_dst:
      return ip && known.ip_proto == 17;
    case Field::sctp_src:
    case Field::sctp_dst:
      return ip && known.ip_proto == 132;
    case Field::icmpv4_type:
    case Field::icmpv4_code:
      return known.eth_type == kIpv4 && known.ip_proto == 1;
    case Field::arp_op:
    case Field::arp_spa:
    case Field::arp_tpa:
    case Field::arp_sha:
    case Field::arp_tha:
      return known.eth_type == kArp || known.eth_type == kRarp;
    case Field::ipv6_src:
    case Field::ipv6_dst:
    case Field::ipv6_flabel:
    case Field::ipv6_exthdr:
      return known.eth_type == kIpv6;
    case Field::icmpv6_type:
    case Field::icmpv6_code:
      return known.eth_type == kIpv6 && known.ip_proto == 58;
    case Field::ipv6_nd_target:
      return known.eth_type == kIpv6 && known.ip_proto == 58 &&
             (known.icmp_type == kNeighborSolicitation ||
              known.icmp_type == kNeighborAdvertisement);
    case Field::ipv6_nd_sll:
      return known.eth_type == kIpv6 && known.ip_proto == 58 &&
             known.icmp_type == kNeighborSolicitation;
    case Field::ipv6_nd_tll:
      return known.eth_type == kIpv6 && known.ip_proto == 58 &&
             known.icmp_type == kNeighborAdvertisement;
    case Field::mpls_label:
    case Field::mpls_tc:
    case Field::mpls_bos:
      return is_mpls(known);
    case Field::pbb_isid:
    case Field::pbb_uca:
      return known.eth_type == kPbb;
    case Field::in_port:
    case Field::metadata:
    case Field::eth_dst:
    case Field::eth_src:
    case Field::eth_type:
    case Field::vlan_vid:
    case Field::tunnel_id:
    case Field::gtpu_qfi:
    case Field::tun_src:
    case Field::tun_dst:
    case Field::tun_ipv6_src:
    case Field::tun_ipv6_dst:
    case Field::count:
      return true;
  }
  return true;
}

}  // namespace headrace::pipeline
