// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/prerequisites.h"

#include <algorithm>
#include <array>

namespace headrace::openflow {
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

void learn_value(PacketFacts& facts, Field field, const std::array<uint8_t, 16>& value) {
  switch (field) {
    case Field::in_port:
      facts.in_port = true;
      break;
    case Field::eth_type:
      facts.eth_type = host16(value);
      break;
    case Field::ip_proto:
      facts.ip_proto = value[0];
      break;
    case Field::icmpv4_type:
    case Field::icmpv6_type:
      facts.icmp_type = value[0];
      break;
    default:
      break;
  }
}

bool is_mpls(const PacketFacts& facts) {
  return facts.eth_type == kMpls || facts.eth_type == kMplsMulticast;
}

void forget_payload(PacketFacts& facts) {
  facts.ip_proto.reset();
  facts.icmp_type.reset();
}

void apply_push(PacketFacts& facts, const pipeline::PushAction& push) {
  switch (push.header) {
    case pipeline::PushAction::Header::vlan:
      facts.vlan = true;
      break;
    case pipeline::PushAction::Header::mpls:
      facts.eth_type = push.ethertype;
      forget_payload(facts);
      break;
    case pipeline::PushAction::Header::pbb:
      facts.eth_type = push.ethertype;
      facts.vlan = false;
      forget_payload(facts);
      break;
  }
}

void apply_push_tunnel(PacketFacts& facts, const packet::TunnelSpec& spec) {
  facts.eth_type = spec.ipv6 ? kIpv6 : kIpv4;
  facts.vlan = false;
  forget_payload(facts);
  facts.ip_proto = spec.kind == packet::TunnelKind::gre ? 47 : 17;
}

void apply_pop(PacketFacts& facts, const pipeline::PopAction& pop) {
  switch (pop.header) {
    case pipeline::PushAction::Header::vlan:
      facts.vlan = false;
      break;
    case pipeline::PushAction::Header::mpls:
      facts.eth_type = pop.ethertype;
      forget_payload(facts);
      break;
    case pipeline::PushAction::Header::pbb:
      facts.eth_type.reset();
      facts.vlan = false;
      forget_payload(facts);
      break;
  }
}

}  // namespace

void PacketFacts::learn(const match::MatchField& field) {
  if (field.field == Field::vlan_vid) {
    vlan = (host16(field.value) & host16(field.mask) & kVidPresent) != 0;
    return;
  }
  learn_value(*this, field.field, field.value);
}

void PacketFacts::apply(const pipeline::Action& action) {
  if (const auto* push = std::get_if<pipeline::PushAction>(&action)) {
    apply_push(*this, *push);
  } else if (const auto* pop = std::get_if<pipeline::PopAction>(&action)) {
    apply_pop(*this, *pop);
  } else if (const auto* tunnel = std::get_if<pipeline::PushTunnelAction>(&action)) {
    apply_push_tunnel(*this, tunnel->spec);
  } else if (std::holds_alternative<pipeline::PopTunnelAction>(action)) {
    // What was carried is known to the next table only.
    eth_type.reset();
    vlan = false;
    forget_payload(*this);
  } else if (const auto* set = std::get_if<pipeline::SetFieldAction>(&action)) {
    learn_value(*this, set->field, set->value);
  }
}

PacketFacts PacketFacts::of(const match::Match& match) {
  PacketFacts facts;
  for (const match::MatchField& field : match.fields) facts.learn(field);
  return facts;
}

bool prerequisites_met(Field field, const PacketFacts& facts) {
  const bool ip = facts.eth_type == kIpv4 || facts.eth_type == kIpv6;
  switch (field) {
    case Field::in_phy_port:
      return facts.in_port;
    case Field::vlan_pcp:
      return facts.vlan;
    case Field::ip_dscp:
    case Field::ip_ecn:
    case Field::ip_proto:
      return ip;
    case Field::ipv4_src:
    case Field::ipv4_dst:
      return facts.eth_type == kIpv4;
    case Field::tcp_src:
    case Field::tcp_dst:
    case Field::tcp_flags:
      return ip && facts.ip_proto == 6;
    case Field::udp_src:
    case Field::udp_dst:
      return ip && facts.ip_proto == 17;
    case Field::sctp_src:
    case Field::sctp_dst:
      return ip && facts.ip_proto == 132;
    case Field::icmpv4_type:
    case Field::icmpv4_code:
      return facts.eth_type == kIpv4 && facts.ip_proto == 1;
    case Field::arp_op:
    case Field::arp_spa:
    case Field::arp_tpa:
    case Field::arp_sha:
    case Field::arp_tha:
      return facts.eth_type == kArp || facts.eth_type == kRarp;
    case Field::ipv6_src:
    case Field::ipv6_dst:
    case Field::ipv6_flabel:
    case Field::ipv6_exthdr:
      return facts.eth_type == kIpv6;
    case Field::icmpv6_type:
    case Field::icmpv6_code:
      return facts.eth_type == kIpv6 && facts.ip_proto == 58;
    case Field::ipv6_nd_target:
      return facts.eth_type == kIpv6 && facts.ip_proto == 58 &&
             (facts.icmp_type == kNeighborSolicitation ||
              facts.icmp_type == kNeighborAdvertisement);
    case Field::ipv6_nd_sll:
      return facts.eth_type == kIpv6 && facts.ip_proto == 58 &&
             facts.icmp_type == kNeighborSolicitation;
    case Field::ipv6_nd_tll:
      return facts.eth_type == kIpv6 && facts.ip_proto == 58 &&
             facts.icmp_type == kNeighborAdvertisement;
    case Field::mpls_label:
    case Field::mpls_tc:
    case Field::mpls_bos:
      return is_mpls(facts);
    case Field::pbb_isid:
    case Field::pbb_uca:
      return facts.eth_type == kPbb;
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

}  // namespace headrace::openflow
