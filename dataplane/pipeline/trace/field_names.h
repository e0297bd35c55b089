// SPDX-License-Identifier: Apache-2.0
// How Open vSwitch spells fields and packet types, beside the registry's names.
// Source: ovs-fields(7).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "match/fields/fields.h"

namespace headrace::pipeline {

/// A name that stands for a type and maybe a protocol.
struct Shorthand {
  std::string_view name;
  uint16_t eth_type;
  int ip_proto;  ///< -1: any
};
/// Where a type has several names, the one to be printed first.
inline constexpr std::array<Shorthand, 16> kShorthands = {{{"ip", 0x0800, -1},
                                                           {"ipv6", 0x86dd, -1},
                                                           {"arp", 0x0806, -1},
                                                           {"rarp", 0x8035, -1},
                                                           {"mpls", 0x8847, -1},
                                                           {"mplsm", 0x8848, -1},
                                                           {"icmp", 0x0800, 1},
                                                           {"tcp", 0x0800, 6},
                                                           {"udp", 0x0800, 17},
                                                           {"sctp", 0x0800, 132},
                                                           {"tcp6", 0x86dd, 6},
                                                           {"udp6", 0x86dd, 17},
                                                           {"icmp6", 0x86dd, 58},
                                                           {"sctp6", 0x86dd, 132},
                                                           {"icmpv6", 0x86dd, 58},
                                                           {"ipv4", 0x0800, -1}}};

struct FieldName {
  std::string_view name;
  match::Field field;
};
/// OVS's names that are not the registry's. The first of a field is the one to be printed.
inline constexpr std::array<FieldName, 25> kNames = {
    {{"dl_dst", match::Field::eth_dst},         {"dl_src", match::Field::eth_src},
     {"dl_type", match::Field::eth_type},       {"dl_vlan_pcp", match::Field::vlan_pcp},
     {"nw_ecn", match::Field::ip_ecn},          {"nw_proto", match::Field::ip_proto},
     {"nw_src", match::Field::ipv4_src},        {"nw_dst", match::Field::ipv4_dst},
     {"ip_src", match::Field::ipv4_src},        {"ip_dst", match::Field::ipv4_dst},
     {"tp_src", match::Field::tcp_src},         {"tp_dst", match::Field::tcp_dst},
     {"tp_src", match::Field::udp_src},         {"tp_dst", match::Field::udp_dst},
     {"tp_src", match::Field::sctp_src},        {"tp_dst", match::Field::sctp_dst},
     {"icmp_type", match::Field::icmpv4_type},  {"icmp_code", match::Field::icmpv4_code},
     {"icmp_type", match::Field::icmpv6_type},  {"icmp_code", match::Field::icmpv6_code},
     {"ipv6_label", match::Field::ipv6_flabel}, {"nd_target", match::Field::ipv6_nd_target},
     {"nd_sll", match::Field::ipv6_nd_sll},     {"nd_tll", match::Field::ipv6_nd_tll},
     {"tun_id", match::Field::tunnel_id}}};

/// How values of a field are written.
enum class ValueKind : uint8_t { number, hex, mac, ipv4, ipv6 };

constexpr ValueKind kind_of(match::Field field) {
  switch (field) {
    case match::Field::eth_dst:
    case match::Field::eth_src:
    case match::Field::arp_sha:
    case match::Field::arp_tha:
    case match::Field::ipv6_nd_sll:
    case match::Field::ipv6_nd_tll:
      return ValueKind::mac;
    case match::Field::ipv4_src:
    case match::Field::ipv4_dst:
    case match::Field::arp_spa:
    case match::Field::arp_tpa:
    case match::Field::tun_src:
    case match::Field::tun_dst:
      return ValueKind::ipv4;
    case match::Field::ipv6_src:
    case match::Field::ipv6_dst:
    case match::Field::ipv6_nd_target:
    case match::Field::tun_ipv6_src:
    case match::Field::tun_ipv6_dst:
      return ValueKind::ipv6;
    case match::Field::metadata:
    case match::Field::tunnel_id:
    case match::Field::eth_type:
    case match::Field::ipv6_flabel:
    case match::Field::ipv6_exthdr:
    case match::Field::tcp_flags:
      return ValueKind::hex;
    default:
      return ValueKind::number;
  }
}

}  // namespace headrace::pipeline
