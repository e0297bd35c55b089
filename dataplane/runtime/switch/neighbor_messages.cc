// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/neighbor_messages.h"

#include <algorithm>
#include <cstring>

#include "packet/checksum.h"
#include "packet/headers.h"
#include "packet/parse.h"

namespace headrace::runtime {
namespace {

using packet::NeighborDiscovery;
using pipeline::MacAddress;
using port::IpAddress;

// --- ARP ---------------------------------------------------------------------------------------

constexpr size_t kArpFrame = 60;
constexpr uint16_t kRequest = 1;
constexpr uint16_t kReply = 2;

IpAddress ipv4_of(uint32_t raw) {
  IpAddress address;
  packet::store_raw32(address.octets.data(), raw);
  return address;
}

MacAddress mac_of(const uint8_t* octets) {
  MacAddress mac;
  std::memcpy(mac.data(), octets, mac.size());
  return mac;
}

NeighborMessage read_arp(const packet::ArpHeader& arp) {
  NeighborMessage message{
      .of = ipv4_of(arp.sender_ip), .mac = mac_of(arp.sender_mac), .asks_for = {}};
  if (arp.operation == packet::swap16(kRequest)) message.asks_for = ipv4_of(arp.target_ip);
  return message;
}

std::vector<uint8_t> make_arp(const uint8_t* to, const MacAddress& mac, uint16_t operation,
                              const IpAddress& sender, const uint8_t* target_mac, uint32_t target) {
  std::vector<uint8_t> frame(kArpFrame);
  auto* ethernet = reinterpret_cast<packet::EthernetHeader*>(frame.data());
  std::memcpy(ethernet->dst, to, 6);
  std::memcpy(ethernet->src, mac.data(), 6);
  ethernet->type = packet::kTypeArp;
  auto* arp = reinterpret_cast<packet::ArpHeader*>(frame.data() + sizeof *ethernet);
  arp->hardware_type = packet::swap16(1);
  arp->protocol_type = packet::kTypeIpv4;
  arp->hardware_length = 6;
  arp->protocol_length = 4;
  arp->operation = packet::swap16(operation);
  std::memcpy(arp->sender_mac, mac.data(), 6);
  arp->sender_ip = packet::load_raw32(sender.octets.data());
  std::memcpy(arp->target_mac, target_mac, 6);
  arp->target_ip = target;
  return frame;
}

// --- neighbor discovery -----------------------------------------------------------------------

/// RFC 4861, 7.1: what was forwarded is invalid.
constexpr uint8_t kHopLimit = 255;
constexpr uint32_t kSolicitedOverride = 0x60000000;  ///< RFC 4861, 4.4: S and O

IpAddress ipv6_of(const uint8_t* octets) {
  IpAddress address{.octets = {}, .ipv6 = true};
  std::memcpy(address.octets.data(), octets, 16);
  return address;
}

bool is_unspecified(const IpAddress& address) {
  return address.octets == packet::TunnelAddress{};
}

/// The link-layer address of an option; nothing without one. `valid` becomes false where an option
/// says that it has no length or does not fit.
std::optional<MacAddress> link_address(std::span<const uint8_t> options, uint8_t wanted,
                                       bool& valid) {
  std::optional<MacAddress> found;
  while (!options.empty()) {
    const size_t size = options.size() < 2 ? 0 : size_t{options[1]} * 8;
    if (size == 0 || size > options.size()) {
      valid = false;
      return std::nullopt;
    }
    if (options[0] == wanted && size == packet::kNdLinkAddressOption) found = mac_of(&options[2]);
    options = options.subspan(size);
  }
  return found;
}

std::optional<NeighborMessage> read_discovery(std::span<const uint8_t> frame,
                                              const packet::ParsedPacket& parsed) {
  const auto* ip = reinterpret_cast<const packet::Ipv6Header*>(&frame[parsed.l3]);
  const size_t end = parsed.l3 + sizeof *ip + packet::swap16(ip->payload_length);
  if (end > frame.size() || parsed.l4 + sizeof(NeighborDiscovery) > end) return std::nullopt;
  const auto* nd = reinterpret_cast<const NeighborDiscovery*>(&frame[parsed.l4]);
  const bool solicits = nd->icmp.type == packet::kIcmpv6NeighborSolicitation;
  if (!solicits && nd->icmp.type != packet::kIcmpv6NeighborAdvertisement) return std::nullopt;
  const std::span<const uint8_t> whole = frame.subspan(parsed.l4, end - parsed.l4);
  const packet::Sum sum =
      packet::sum_of(whole) + packet::pseudo_ipv6(ip->src, ip->dst, packet::kProtoIcmpv6,
                                                  static_cast<uint32_t>(whole.size()));
  bool valid = ip->hop_limit == kHopLimit && nd->icmp.code == 0 && packet::fold(sum) == 0xffff &&
               nd->target[0] != 0xff;
  const auto mac =
      link_address(whole.subspan(sizeof *nd),
                   solicits ? packet::kNdSourceLinkAddress : packet::kNdTargetLinkAddress, valid);
  if (!valid) return std::nullopt;
  NeighborMessage message{
      .of = ipv6_of(solicits ? ip->src : nd->target), .mac = mac, .asks_for = {}};
  if (solicits) message.asks_for = ipv6_of(nd->target);
  if (is_unspecified(message.of)) message.mac.reset();  // it asks whether its address is free
  return message;
}

struct Discovery {
  MacAddress to_mac;
  MacAddress from_mac;
  IpAddress to;
  IpAddress from;
  uint8_t type;
  uint32_t flags;
  IpAddress target;
  uint8_t option;
};

std::vector<uint8_t> make_discovery(const Discovery& what) {
  constexpr size_t kMessage = sizeof(NeighborDiscovery) + packet::kNdLinkAddressOption;
  std::vector<uint8_t> frame(sizeof(packet::EthernetHeader) + sizeof(packet::Ipv6Header) +
                             kMessage);
  auto* ethernet = reinterpret_cast<packet::EthernetHeader*>(frame.data());
  std::memcpy(ethernet->dst, what.to_mac.data(), 6);
  std::memcpy(ethernet->src, what.from_mac.data(), 6);
  ethernet->type = packet::kTypeIpv6;
  auto* ip = reinterpret_cast<packet::Ipv6Header*>(ethernet + 1);
  ip->version_class_flow = packet::swap32(uint32_t{6} << 28);
  ip->payload_length = packet::swap16(kMessage);
  ip->next_header = packet::kProtoIcmpv6;
  ip->hop_limit = kHopLimit;
  std::memcpy(ip->src, what.from.octets.data(), 16);
  std::memcpy(ip->dst, what.to.octets.data(), 16);
  auto* nd = reinterpret_cast<NeighborDiscovery*>(ip + 1);
  nd->icmp.type = what.type;
  nd->flags = packet::swap32(what.flags);
  std::memcpy(nd->target, what.target.octets.data(), 16);
  auto* option = reinterpret_cast<packet::NdOption*>(nd + 1);
  option->type = what.option;
  option->length = 1;
  std::memcpy(option + 1, what.from_mac.data(), 6);
  const std::span<const uint8_t> whole(reinterpret_cast<const uint8_t*>(nd), kMessage);
  nd->icmp.checksum = static_cast<uint16_t>(
      ~packet::fold(packet::sum_of(whole) +
                    packet::pseudo_ipv6(ip->src, ip->dst, packet::kProtoIcmpv6, kMessage)));
  return frame;
}

/// The solicited-node multicast address (RFC 4291, 2.7.1), and its MAC address (RFC 2464, 7).
IpAddress solicited_node(const IpAddress& target) {
  IpAddress group{.octets = {0xff, 0x02}, .ipv6 = true};
  group.octets[11] = 1;
  group.octets[12] = 0xff;
  std::copy_n(&target.octets[13], 3, &group.octets[13]);
  return group;
}

MacAddress multicast_mac(const IpAddress& group) {
  MacAddress mac{0x33, 0x33};
  std::copy_n(&group.octets[12], 4, &mac[2]);
  return mac;
}

}  // namespace

std::optional<NeighborMessage> read_neighbor_message(std::span<const uint8_t> frame) {
  const packet::ParsedPacket parsed = packet::parse(frame, packet::Depth::full);
  if (parsed.has(packet::kArp)) {
    return read_arp(*reinterpret_cast<const packet::ArpHeader*>(&frame[parsed.l3]));
  }
  if (!parsed.has(packet::kIpv6) || parsed.ip_proto != packet::kProtoIcmpv6 || parsed.l4 == 0) {
    return std::nullopt;
  }
  return read_discovery(frame, parsed);
}

std::vector<uint8_t> neighbor_request(const MacAddress& mac, const IpAddress& ip,
                                      const IpAddress& target) {
  if (target.ipv6) {
    const IpAddress group = solicited_node(target);
    return make_discovery({.to_mac = multicast_mac(group),
                           .from_mac = mac,
                           .to = group,
                           .from = ip,
                           .type = packet::kIcmpv6NeighborSolicitation,
                           .flags = 0,
                           .target = target,
                           .option = packet::kNdSourceLinkAddress});
  }
  constexpr uint8_t kBroadcast[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  constexpr uint8_t kUnknown[6] = {};
  return make_arp(kBroadcast, mac, kRequest, ip, kUnknown,
                  packet::load_raw32(target.octets.data()));
}

std::vector<uint8_t> neighbor_reply(std::span<const uint8_t> request, const MacAddress& mac,
                                    const IpAddress& ip) {
  const packet::ParsedPacket parsed = packet::parse(request, packet::Depth::full);
  if (!ip.ipv6) {
    const auto* arp = reinterpret_cast<const packet::ArpHeader*>(&request[parsed.l3]);
    return make_arp(arp->sender_mac, mac, kReply, ip, arp->sender_mac, arp->sender_ip);
  }
  const auto* asker = reinterpret_cast<const packet::Ipv6Header*>(&request[parsed.l3]);
  Discovery reply{.to_mac = mac_of(&request[6]),
                  .from_mac = mac,
                  .to = ipv6_of(asker->src),
                  .from = ip,
                  .type = packet::kIcmpv6NeighborAdvertisement,
                  .flags = kSolicitedOverride,
                  .target = ip,
                  .option = packet::kNdTargetLinkAddress};
  if (is_unspecified(reply.to)) {  // RFC 4861, 7.2.4: to all nodes, unsolicited
    reply.to = IpAddress{.octets = {0xff, 0x02}, .ipv6 = true};
    reply.to.octets[15] = 1;
    reply.to_mac = multicast_mac(reply.to);
    reply.flags = 0x20000000;
  }
  return make_discovery(reply);
}

}  // namespace headrace::runtime
