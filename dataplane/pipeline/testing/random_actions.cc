// SPDX-License-Identifier: Apache-2.0
#include "pipeline/testing/random_actions.h"

#include <algorithm>

#include "match/fields/oxm.h"
#include "pipeline/operations/pseudo_ports/registry.h"
#include "pipeline/operations/registry.h"

namespace headrace::pipeline::test {

using match::Field;

/// Few addresses, close together: prefixes of all lengths tell some of them apart.
uint32_t choose_address(const Choose& choose) {
  constexpr uint32_t kBases[] = {0x0a000000, 0x0a010000, 0xc0a80000, 0x0a000100};
  return kBases[choose(4)] + static_cast<uint32_t>(choose(6));
}

uint64_t choose_mac(const Choose& choose) {
  return 0x020000000000 + choose(5);
}

uint64_t choose_port(const Choose& choose) {
  return 1000 + choose(5);
}

/// Few interface identifiers, as choose_address().
uint64_t choose_host(const Choose& choose) {
  return 1 + choose(4);
}

/// A tunnel's outer address of either IP version, of one draw.
FieldValue choose_tunnel_address(const Choose& choose, Field ipv4, Field ipv6) {
  const uint32_t address = choose_address(choose);
  if (address % 2 == 0) return {ipv4, address};
  return {ipv6, address % 8};
}

namespace {

SetFieldAction choose_set_tunnel_address(const Choose& choose, Field ipv4, Field ipv6) {
  const FieldValue chosen = choose_tunnel_address(choose, ipv4, ipv6);
  return set_field(chosen.field, chosen.value);
}

/// Fields of ARP, ICMP, SCTP, IPv6 and its neighbor discovery.
SetFieldAction choose_rare_set_field(const Choose& choose) {
  switch (choose(17)) {
    case 0:
      return set_field(Field::arp_op, 1 + choose(2));
    case 1:
      return set_field(Field::arp_spa, choose_address(choose));
    case 2:
      return set_field(Field::arp_tpa, choose_address(choose));
    case 3:
      return set_field(Field::arp_sha, choose_mac(choose));
    case 4:
      return set_field(Field::arp_tha, choose_mac(choose));
    case 5:
      return set_field(Field::ipv6_src, choose_host(choose));
    case 6:
      return set_field(Field::ipv6_dst, choose_host(choose));
    case 7:
      return set_field(Field::ipv6_nd_target, choose_host(choose));
    case 8:
      return set_field(Field::ipv6_nd_sll, choose_mac(choose));
    case 9:
      return set_field(Field::ipv6_nd_tll, choose_mac(choose));
    case 10:
      return set_field(Field::icmpv4_type, choose(9));
    case 11:
      return set_field(Field::icmpv4_code, choose(2));
    case 12:
      return set_field(Field::icmpv6_type, 134 + choose(4));
    case 13:
      return set_field(Field::icmpv6_code, choose(2));
    case 14:
      return set_field(Field::sctp_dst, choose_port(choose));
    case 15:
      return choose_set_tunnel_address(choose, Field::tun_src, Field::tun_ipv6_src);
    default:
      return set_field(Field::ip_proto, choose(2) != 0 ? 17 : 132);
  }
}

SetFieldAction choose_set_field(const Choose& choose) {
  if (choose(3) == 0) return choose_rare_set_field(choose);
  switch (choose(18)) {
    case 0:
      return set_field(Field::eth_src, choose_mac(choose));
    case 1:
      return set_field(Field::eth_dst, choose_mac(choose));
    case 2:
      return set_field(Field::ipv4_src, choose_address(choose));
    case 3:
      return set_field(Field::ipv4_dst, choose_address(choose));
    case 4:
      return set_field(Field::udp_dst, choose_port(choose));
    case 5:
      return set_field(Field::tcp_src, choose_port(choose));
    case 6:
      return set_field(Field::vlan_vid, 0x1000 + choose(4));
    case 7:
      return set_field(Field::ip_dscp, choose(64));
    case 8:
      return set_field(Field::vlan_pcp, choose(8));
    case 9:
      return set_field(Field::mpls_tc, choose(8));
    case 10:
      return set_field(Field::mpls_bos, choose(2));
    case 11:
      return set_field(Field::pbb_isid, choose(3));
    case 12:
      return set_field(Field::pbb_uca, choose(2));
    case 13:
      return set_field(Field::tunnel_id, choose(4));
    case 14:
      return choose_set_tunnel_address(choose, Field::tun_dst, Field::tun_ipv6_dst);
    case 15:
      return set_field(Field::ipv6_flabel, choose(4));
    case 16:
      return set_field(Field::ip_ecn, choose(4));
    default:
      return set_field(Field::mpls_label, choose(5));
  }
}

}  // namespace

packet::TunnelKind choose_kind(const Choose& choose) {
  return static_cast<packet::TunnelKind>(1 + choose(3));
}

PushTunnelAction choose_push_tunnel(const Choose& choose) {
  PushTunnelAction push;
  packet::TunnelSpec& spec = push.spec;
  spec.kind = choose_kind(choose);
  spec.id = choose(4);
  spec.src_mac = {2, 0, 0, 0, 0, static_cast<uint8_t>(choose(5))};
  spec.dst_mac = {2, 0, 0, 0, 0, static_cast<uint8_t>(choose(5))};
  spec.local = {10, 0, 0, static_cast<uint8_t>(choose(6))};
  spec.remote = {10, 1, 0, static_cast<uint8_t>(choose(6))};
  push.id_from_field = choose(3) == 0;
  // Often nothing special: that has a path of its own.
  if (choose(2) == 0) return push;
  spec.ipv6 = choose(4) == 0;
  if (spec.ipv6) {
    for (packet::TunnelAddress* address : {&spec.local, &spec.remote}) {
      *address = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, (*address)[3]};
    }
  }
  spec.has_key = choose(3) != 0;
  spec.checksum = choose(3) == 0;
  spec.layer3 = choose(3) == 0;
  spec.inherit_tos = choose(4) == 0;
  spec.inherit_ttl = choose(4) == 0;
  return push;
}

namespace {

/// Copy-field between any two fields, of bits that both have: as it comes on the wire, since
/// nothing else names its arguments.
Action choose_copy_field(const Choose& choose) {
  constexpr Field kFields[] = {
      Field::eth_dst,  Field::eth_src,     Field::vlan_vid,  Field::vlan_pcp, Field::ip_dscp,
      Field::ipv4_src, Field::ipv4_dst,    Field::udp_src,   Field::tcp_dst,  Field::arp_spa,
      Field::ipv6_src, Field::ipv6_flabel, Field::tunnel_id, Field::tun_dst,  Field::mpls_label};
  const Field from = kFields[choose(std::size(kFields))];
  const Field to = kFields[choose(std::size(kFields))];
  // Without OFPVID_PRESENT in the value of vlan_vid, which set-field may not clear.
  const auto bits_of = [](Field field) {
    return field == Field::vlan_vid ? 12u : unsigned{match::info(field).bits};
  };
  const uint64_t n_bits = 1 + choose(std::min(bits_of(from), bits_of(to)));
  constexpr uint32_t kNicira = 0x00002320;
  constexpr uint16_t kRegMove = 6;
  std::vector<uint8_t> octets;
  octets.reserve(32);
  wire::Writer writer(octets);
  writer.u16(static_cast<uint16_t>(n_bits));
  writer.u16(static_cast<uint16_t>(choose(bits_of(from) - n_bits + 1)));
  writer.u16(static_cast<uint16_t>(choose(bits_of(to) - n_bits + 1)));
  match::encode_oxm_header(writer, from, false);
  match::encode_oxm_header(writer, to, false);
  wire::Reader reader(octets);
  return *find_form(kExperimenterAction, kNicira, kRegMove)
              .form->decode(reader, ActionContext::flow);
}

PortNo reflect_port() {
  for (const PseudoPort* each : pseudo_ports()) {
    if (each->name == "REFLECT") return each->number;
  }
  return kPortInPort;
}

Action choose_edit(const Choose& choose) {
  switch (choose(20)) {
    case 18:
      return choose_copy_field(choose);
    case 0:
      return PushVlanAction{static_cast<uint16_t>(choose(2) != 0 ? 0x8100 : 0x88a8)};
    case 1:
      return PopVlanAction{};
    case 2:
      return PushMplsAction{0x8847};
    case 3:
      return PopMplsAction{0x0800};
    case 4:
    case 5:
      return DecNwTtlAction{};
    case 6:
      return SetNwTtlAction{static_cast<uint8_t>(choose(3))};
    case 7:
      return PushPbbAction{0x88e7};
    case 8:
      return PopPbbAction{};
    case 9:
      switch (choose(4)) {
        case 0:
          return DecNwTtlAction{};
        case 1:
          return DecMplsTtlAction{};
        case 2:
          return CopyTtlOutAction{};
        default:
          return CopyTtlInAction{};
      }
    case 10:
      return SetMplsTtlAction{static_cast<uint8_t>(choose(3))};
    case 11:
      return choose_push_tunnel(choose);
    case 12:
    case 13:
      return PopTunnelAction{choose_kind(choose)};
    default:
      return choose_set_field(choose);
  }
}

Action choose_output(const Choose& choose, size_t n_groups) {
  switch (choose(13)) {
    case 12:
      return OutputAction{reflect_port()};
    case 0:
      return OutputAction{kPortController};
    case 1:
      return OutputAction{kPortInPort};
    case 2:
      return OutputAction{kPortFlood};
    case 3:
      return OutputAction{kRandomPorts + 5};  // not there
    case 4:
    case 5:
      if (n_groups != 0) return GroupAction{static_cast<uint32_t>(choose(n_groups))};
      [[fallthrough]];
    default:
      return OutputAction{static_cast<PortNo>(1 + choose(kRandomPorts))};
  }
}

}  // namespace

ActionList choose_actions(const Choose& choose, size_t n_groups, size_t most) {
  ActionList actions;
  // The fast-path class of a router's rule, often, and of a gateway's: they have paths of their
  // own.
  if (choose(3) == 0) {
    actions = {set_field(Field::eth_src, choose_mac(choose)),
               set_field(Field::eth_dst, choose_mac(choose))};
    if (choose(4) != 0) actions.emplace_back(DecNwTtlAction{});
    if (choose(3) == 0) actions.emplace_back(choose_push_tunnel(choose));
    actions.emplace_back(OutputAction{static_cast<PortNo>(1 + choose(kRandomPorts))});
    return actions;
  }
  for (size_t left = choose(most + 1); left > 0; --left) {
    actions.emplace_back(choose(2) != 0 ? choose_edit(choose) : choose_output(choose, n_groups));
  }
  return actions;
}

}  // namespace headrace::pipeline::test
