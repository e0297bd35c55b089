// SPDX-License-Identifier: Apache-2.0
#include "vnf/net/icmpv6.h"

#include <algorithm>
#include <cstring>

#include "vnf/net/ipv6_frame.h"

namespace headrace::vnf {
namespace {

constexpr uint8_t kEchoRequest = 128;
constexpr uint8_t kEchoReply = 129;
constexpr size_t kMaxOctets = 1280;  ///< RFC 4443, 2.4(c)
constexpr uint8_t kOnLink = 255;  ///< hop limit of a packet that no router forwarded: RFC 4861, 7.1

constexpr uint32_t kRouterFlag = 0x80000000;
constexpr uint32_t kSolicitedFlag = 0x40000000;
constexpr uint32_t kOverrideFlag = 0x20000000;

struct __attribute__((packed)) ErrorMessage {
  packet::IcmpHeader header;
  uint32_t word;
};
static_assert(sizeof(ErrorMessage) == 8);

/// A frame with an IPv6 header for an ICMPv6 message of `size` octets, which are zero.
rte_mbuf* make_message(rte_mempool* pool, const Ipv6Address& src, const uint8_t* dst, size_t size,
                       uint8_t hop_limit) {
  rte_mbuf* frame = rte_pktmbuf_alloc(pool);
  if (frame == nullptr) return nullptr;
  const size_t whole = sizeof(packet::EthernetHeader) + sizeof(packet::Ipv6Header) + size;
  char* bytes = rte_pktmbuf_append(frame, static_cast<uint16_t>(whole));
  if (bytes == nullptr) {  // the pool's buffers are too small
    rte_pktmbuf_free(frame);
    return nullptr;
  }
  std::memset(bytes, 0, whole);
  ethernet_of(frame).type = packet::kTypeIpv6;
  auto& ip = ipv6_of(frame);
  ip.version_class_flow = packet::swap32(0x60000000);
  ip.payload_length = packet::swap16(static_cast<uint16_t>(size));
  ip.next_header = packet::kProtoIcmpv6;
  ip.hop_limit = hop_limit;
  std::memcpy(ip.src, src.data(), src.size());
  std::memcpy(ip.dst, dst, sizeof ip.dst);
  return frame;
}

void set_checksum(rte_mbuf* frame) {
  const auto message = ipv6_payload_of(frame);
  auto& icmp = *reinterpret_cast<packet::IcmpHeader*>(message.data());
  icmp.checksum = 0;
  icmp.checksum = icmpv6_checksum(ipv6_of(frame), message);
}

/// A neighbor message with one link-layer address option.
rte_mbuf* make_neighbor_message(rte_mempool* pool, uint8_t type, const NdEnd& own,
                                const uint8_t* dst, const Ipv6Address& target, uint32_t flags,
                                uint8_t option) {
  constexpr size_t kSize = sizeof(packet::NeighborDiscovery) + packet::kNdLinkAddressOption;
  rte_mbuf* frame = make_message(pool, own.address, dst, kSize, kOnLink);
  if (frame == nullptr) return nullptr;
  auto* message = reinterpret_cast<packet::NeighborDiscovery*>(ipv6_payload_of(frame).data());
  message->icmp.type = type;
  message->flags = packet::swap32(flags);
  std::memcpy(message->target, target.data(), target.size());
  auto* link = reinterpret_cast<uint8_t*>(message + 1);
  link[0] = option;
  link[1] = 1;
  std::memcpy(link + 2, own.mac.data(), own.mac.size());
  std::memcpy(ethernet_of(frame).src, own.mac.data(), own.mac.size());
  set_checksum(frame);
  return frame;
}

/// The link-layer address option of a kind; false if an option is malformed (RFC 4861, 7.1.1).
bool read_options(std::span<const uint8_t> options, uint8_t wanted,
                  std::optional<MacAddress>& found) {
  while (!options.empty()) {
    if (options.size() < sizeof(packet::NdOption) || options[1] == 0) return false;
    const size_t size = size_t{8} * options[1];
    if (size > options.size()) return false;
    if (options[0] == wanted && size == packet::kNdLinkAddressOption) {
      MacAddress mac;
      std::memcpy(mac.data(), &options[2], mac.size());
      if ((mac[0] & 1) == 0) found = mac;
    }
    options = options.subspan(size);
  }
  return true;
}

}  // namespace

bool may_cause_icmpv6_error(rte_mbuf* frame, uint8_t type) {
  const auto& ip = ipv6_of(frame);
  const auto src = to_address(ip.src);
  if (is_unspecified(src) || is_multicast(src)) return false;
  const bool to_many = is_multicast(to_address(ip.dst)) || (ethernet_of(frame).dst[0] & 1) != 0;
  if (to_many && type != kIcmpv6PacketTooBig) return false;
  if (ip.next_header != packet::kProtoIcmpv6) return true;
  const auto message = ipv6_payload_of(frame);
  return !message.empty() && message[0] >= 128;  // types below are errors: RFC 4443, 2.1
}

rte_mbuf* make_icmpv6_error(rte_mempool* pool, rte_mbuf* about, const Ipv6Address& source,
                            uint8_t type, uint8_t code, uint32_t word) {
  constexpr size_t kHeaders = sizeof(packet::Ipv6Header) + sizeof(ErrorMessage);
  const size_t original = sizeof(packet::Ipv6Header) + ipv6_payload_of(about).size();
  const size_t quoted = std::min(original, kMaxOctets - kHeaders);
  rte_mbuf* frame =
      make_message(pool, source, ipv6_of(about).src, sizeof(ErrorMessage) + quoted, 64);
  if (frame == nullptr) return nullptr;
  auto* message = reinterpret_cast<ErrorMessage*>(ipv6_payload_of(frame).data());
  message->header.type = type;
  message->header.code = code;
  message->word = packet::swap32(word);
  std::memcpy(message + 1, &ipv6_of(about), quoted);
  set_checksum(frame);
  return frame;
}

bool answer_echo_v6(rte_mbuf* frame, const Ipv6Address& own) {
  auto& ip = ipv6_of(frame);
  const auto message = ipv6_payload_of(frame);
  if (ip.next_header != packet::kProtoIcmpv6 || message.size() < sizeof(ErrorMessage) ||
      message.size() != packet::swap16(ip.payload_length) || message[0] != kEchoRequest ||
      message[1] != 0 || icmpv6_checksum(ip, message) != 0) {
    return false;
  }
  std::memcpy(ip.dst, ip.src, sizeof ip.dst);
  std::memcpy(ip.src, own.data(), own.size());
  ip.hop_limit = 64;
  message[0] = kEchoReply;
  set_checksum(frame);
  return true;
}

std::optional<NeighborMessage> read_neighbor_message(rte_mbuf* frame) {
  const auto& ip = ipv6_of(frame);
  const auto bytes = ipv6_payload_of(frame);
  if (ip.next_header != packet::kProtoIcmpv6 || bytes.size() < sizeof(packet::NeighborDiscovery) ||
      bytes.size() != packet::swap16(ip.payload_length)) {
    return std::nullopt;
  }
  const auto& nd = *reinterpret_cast<const packet::NeighborDiscovery*>(bytes.data());
  const bool solicitation = nd.icmp.type == packet::kIcmpv6NeighborSolicitation;
  if (!solicitation && nd.icmp.type != packet::kIcmpv6NeighborAdvertisement) return std::nullopt;
  const uint32_t flags = packet::swap32(nd.flags);
  NeighborMessage message{.solicitation = solicitation,
                          .solicited = (flags & kSolicitedFlag) != 0,
                          .override = (flags & kOverrideFlag) != 0,
                          .sender = to_address(ip.src),
                          .target = to_address(nd.target),
                          .link_address = std::nullopt};
  const auto option = solicitation ? packet::kNdSourceLinkAddress : packet::kNdTargetLinkAddress;
  if (ip.hop_limit != kOnLink || nd.icmp.code != 0 || is_multicast(message.target) ||
      icmpv6_checksum(ip, bytes) != 0 ||
      !read_options(bytes.subspan(sizeof nd), option, message.link_address)) {
    return std::nullopt;
  }
  const auto dst = to_address(ip.dst);
  if (!solicitation && message.solicited && is_multicast(dst)) return std::nullopt;
  if (solicitation && is_unspecified(message.sender) &&
      (message.link_address || dst != solicited_node_of(message.target))) {
    return std::nullopt;
  }
  return message;
}

rte_mbuf* make_neighbor_solicitation(rte_mempool* pool, const NdEnd& own,
                                     const Ipv6Address& target) {
  const auto group = solicited_node_of(target);
  rte_mbuf* frame = make_neighbor_message(pool, packet::kIcmpv6NeighborSolicitation, own,
                                          group.data(), target, 0, packet::kNdSourceLinkAddress);
  if (frame == nullptr) return nullptr;
  const auto mac = multicast_mac_of(group);
  std::memcpy(ethernet_of(frame).dst, mac.data(), mac.size());
  return frame;
}

rte_mbuf* make_neighbor_advertisement(rte_mempool* pool, const NdEnd& own, const Ipv6Address& to,
                                      const uint8_t* to_mac) {
  constexpr Ipv6Address kAllNodes{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  const bool nameless = is_unspecified(to);
  const uint32_t flags = kRouterFlag | kOverrideFlag | (nameless ? 0 : kSolicitedFlag);
  rte_mbuf* frame = make_neighbor_message(pool, packet::kIcmpv6NeighborAdvertisement, own,
                                          nameless ? kAllNodes.data() : to.data(), own.address,
                                          flags, packet::kNdTargetLinkAddress);
  if (frame == nullptr) return nullptr;
  const auto all = multicast_mac_of(kAllNodes);
  std::memcpy(ethernet_of(frame).dst, nameless ? all.data() : to_mac, all.size());
  return frame;
}

}  // namespace headrace::vnf
