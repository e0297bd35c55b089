// SPDX-License-Identifier: Apache-2.0
// Fields of IPv4, IPv6, TCP, UDP, SCTP, ICMP and neighbor discovery, with checksum repair.
#include <array>
#include <cstring>

#include "packet/checksum.h"
#include "packet/edit.h"
#include "packet/offload.h"

namespace headrace::packet {
namespace {

/// The L4 checksum that a pseudo-header enters, or nothing.
uint8_t* pseudo_checksum(std::span<uint8_t> frame, const ParsedPacket& parsed) {
  if (parsed.l4 == 0) return nullptr;
  uint8_t* l4 = &frame[parsed.l4];
  switch (parsed.ip_proto) {
    case kProtoTcp:
      return l4 + offsetof(TcpHeader, checksum);
    case kProtoUdp: {
      uint8_t* field = l4 + offsetof(UdpHeader, checksum);
      return load_raw16(field) == 0 ? nullptr : field;
    }
    case kProtoIcmpv6:
      return parsed.has(kIpv6) ? l4 + offsetof(IcmpHeader, checksum) : nullptr;
    default:
      return nullptr;
  }
}

/// Repairs the checksum of an L4 header that is in the packet after octets of the pseudo-header
/// changed. One that is left to the sender (offload.h) is the sum of that header, which is not
/// complemented.
void repair_pseudo(const rte_mbuf* packet, uint8_t* field, const ParsedPacket& parsed,
                   const uint8_t* before, const uint8_t* after, size_t bytes) {
  const uint16_t old = load_raw16(field);
  if (offload_left(packet)) {
    const uint16_t sum = update_bytes(static_cast<uint16_t>(~old), before, after, bytes);
    store_raw16(field, static_cast<uint16_t>(~sum));
    return;
  }
  uint16_t sum = update_bytes(old, before, after, bytes);
  if (parsed.ip_proto == kProtoUdp) sum = udp_nonzero(sum);
  store_raw16(field, sum);
}

/// Repairs the checksum at `field` after `bytes` octets of what it covers, the pseudo-header not
/// among them, changed from `before` to `after`. One that is left to the sender covers nothing yet.
void repair(const rte_mbuf* packet, uint8_t* field, const ParsedPacket& parsed,
            const uint8_t* before, const uint8_t* after, size_t bytes) {
  if (offload_left(packet)) return;
  uint16_t sum = update_bytes(load_raw16(field), before, after, bytes);
  if (parsed.ip_proto == kProtoUdp) sum = udp_nonzero(sum);
  store_raw16(field, sum);
}

/// Where an IPv6 packet keeps its upper-layer protocol, and whether a routing header still names
/// the final destination, which then is the one in the pseudo-header (RFC 8200, 8.1).
struct Ipv6Tail {
  uint8_t* proto{nullptr};
  bool routed_onward{false};
};

Ipv6Tail tail_of(std::span<uint8_t> frame, const ParsedPacket& parsed) {
  Ipv6Tail tail{&frame[parsed.l3 + offsetof(Ipv6Header, next_header)], false};
  size_t offset = parsed.l3 + sizeof(Ipv6Header);
  for (;;) {
    const uint8_t proto = *tail.proto;
    const bool options =
        proto == kProtoHopByHop || proto == kProtoDestOptions || proto == kProtoRouting;
    if (!options && proto != kProtoAuth && proto != kProtoFragment) return tail;
    if (offset + sizeof(Ipv6Fragment) > frame.size()) return tail;
    constexpr size_t kSegmentsLeft = 3;
    if (proto == kProtoRouting && frame[offset + kSegmentsLeft] != 0) tail.routed_onward = true;
    const size_t length = frame[offset + 1];
    const size_t bytes = options               ? (length + 1) * 8
                         : proto == kProtoAuth ? (length + 2) * 4
                                               : sizeof(Ipv6Fragment);
    if (parsed.has(kLaterFragment) && proto == kProtoFragment) {
      tail.proto = &frame[offset];
      return tail;
    }
    if (offset + bytes > frame.size()) return tail;
    tail.proto = &frame[offset];
    offset += bytes;
  }
}

bool set_ipv4_address(rte_mbuf* packet, const ParsedPacket& parsed, size_t where,
                      const uint8_t* addr) {
  if (!parsed.has(kIpv4)) return false;
  const std::span<uint8_t> frame = frame_of(packet);
  uint8_t* place = &frame[parsed.l3 + where];
  const uint32_t before = load_raw32(place);
  const uint32_t after = load_raw32(addr);
  auto* ip = reinterpret_cast<Ipv4Header*>(&frame[parsed.l3]);
  ip->checksum = update32(ip->checksum, before, after);
  if (uint8_t* field = pseudo_checksum(frame, parsed); field != nullptr) {
    repair_pseudo(packet, field, parsed, place, addr, sizeof after);
  }
  store_raw32(place, after);
  return true;
}

constexpr size_t kIpv6Address = 16;

bool set_ipv6_address(rte_mbuf* packet, const ParsedPacket& parsed, size_t where,
                      const uint8_t* addr) {
  if (!parsed.has(kIpv6)) return false;
  const std::span<uint8_t> frame = frame_of(packet);
  uint8_t* place = &frame[parsed.l3 + where];
  uint8_t* field = pseudo_checksum(frame, parsed);
  const bool in_pseudo_header =
      where == offsetof(Ipv6Header, src) || !tail_of(frame, parsed).routed_onward;
  if (field != nullptr && in_pseudo_header) {
    repair_pseudo(packet, field, parsed, place, addr, kIpv6Address);
  }
  std::memcpy(place, addr, kIpv6Address);
  return true;
}

/// Changes the octet of IPv4's TOS or IPv6's traffic class: the bits of `mask` become `value`.
bool set_class(rte_mbuf* packet, const ParsedPacket& parsed, uint8_t mask, uint8_t value) {
  uint8_t* l3 = rte_pktmbuf_mtod_offset(packet, uint8_t*, parsed.l3);
  if (parsed.has(kIpv4)) {
    auto* ip = reinterpret_cast<Ipv4Header*>(l3);
    const uint16_t before = load_raw16(l3);
    ip->tos = static_cast<uint8_t>((ip->tos & ~mask) | (value & mask));
    ip->checksum = update16(ip->checksum, before, load_raw16(l3));
    return true;
  }
  if (parsed.has(kIpv6)) {
    constexpr int kClassShift = 20;
    const uint32_t bits = uint32_t{mask} << kClassShift;
    store_be32(l3, (load_be32(l3) & ~bits) | (uint32_t{value} << kClassShift & bits));
    return true;
  }
  return false;
}

/// Changes a port of an SCTP packet and its CRC32c by what that changes (RFC 9260, 6.8), so that a
/// packet which came damaged stays so. False, with nothing changed, if it is not all in the
/// segment.
bool set_sctp_port(std::span<uint8_t> frame, const ParsedPacket& parsed, size_t where,
                   const uint8_t* port) {
  const uint8_t* l3 = &frame[parsed.l3];
  const size_t end =
      parsed.has(kIpv4)
          ? parsed.l3 + load_be16(l3 + offsetof(Ipv4Header, total_length))
          : parsed.l3 + sizeof(Ipv6Header) + load_be16(l3 + offsetof(Ipv6Header, payload_length));
  if (end > frame.size() || end < parsed.l4 + sizeof(SctpHeader)) return false;
  const size_t at = parsed.l4 + where;
  const std::array<uint8_t, 2> change = {static_cast<uint8_t>(frame[at] ^ port[0]),
                                         static_cast<uint8_t>(frame[at + 1] ^ port[1])};
  uint8_t* field = &frame[parsed.l4 + offsetof(SctpHeader, checksum)];
  store_raw32(field, load_raw32(field) ^ crc32c_change(change, end - at - change.size()));
  std::memcpy(&frame[at], port, change.size());
  return true;
}

bool set_port(rte_mbuf* packet, const ParsedPacket& parsed, uint8_t proto, size_t where,
              const uint8_t* port) {
  if (parsed.l4 == 0 || parsed.ip_proto != proto) return false;
  const std::span<uint8_t> frame = frame_of(packet);
  uint8_t* place = &frame[parsed.l4 + where];
  if (proto == kProtoSctp) return set_sctp_port(frame, parsed, where, port);
  if (uint8_t* field = pseudo_checksum(frame, parsed); field != nullptr) {
    repair(packet, field, parsed, place, port, 2);
  }
  std::memcpy(place, port, 2);
  return true;
}

bool set_icmp_octet(rte_mbuf* packet, const ParsedPacket& parsed, uint8_t proto, size_t where,
                    uint8_t value) {
  const uint16_t its_ip = proto == kProtoIcmp ? kIpv4 : kIpv6;
  if (parsed.l4 == 0 || parsed.ip_proto != proto || !parsed.has(its_ip)) return false;
  uint8_t* l4 = &frame_of(packet)[parsed.l4];
  auto* icmp = reinterpret_cast<IcmpHeader*>(l4);
  const uint16_t before = load_raw16(l4);
  l4[where] = value;
  icmp->checksum = update16(icmp->checksum, before, load_raw16(l4));
  return true;
}

/// Writes octets of a neighbor discovery message at `offset` from its start.
bool write_nd(rte_mbuf* packet, const ParsedPacket& parsed, size_t offset, const uint8_t* from,
              size_t bytes) {
  const std::span<uint8_t> frame = frame_of(packet);
  if (parsed.l4 + offset + bytes > frame.size()) return false;
  uint8_t* place = &frame[parsed.l4 + offset];
  repair(packet, &frame[parsed.l4 + offsetof(IcmpHeader, checksum)], parsed, place, from, bytes);
  std::memcpy(place, from, bytes);
  return true;
}

bool is_neighbor_discovery(rte_mbuf* packet, const ParsedPacket& parsed) {
  if (parsed.l4 == 0 || !parsed.has(kIpv6) || parsed.ip_proto != kProtoIcmpv6) return false;
  const uint8_t type = frame_of(packet)[parsed.l4];
  return type == kIcmpv6NeighborSolicitation || type == kIcmpv6NeighborAdvertisement;
}

}  // namespace

bool set_ip_dscp(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* dscp) {
  return set_class(packet, parsed, 0xfc, static_cast<uint8_t>(*dscp << 2));
}

bool set_ip_ecn(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* ecn) {
  return set_class(packet, parsed, 0x03, *ecn);
}

bool set_ip_proto(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* proto) {
  if (!parsed.has(kIpv4 | kIpv6)) return false;
  if (offload_left(packet)) finish_checksum(packet);
  const std::span<uint8_t> frame = frame_of(packet);
  if (uint8_t* field = pseudo_checksum(frame, parsed); field != nullptr) {
    const uint8_t before[2] = {0, parsed.ip_proto};
    const uint8_t after[2] = {0, *proto};
    repair_pseudo(packet, field, parsed, before, after, 2);
  }
  if (parsed.has(kIpv6)) {
    *tail_of(frame, parsed).proto = *proto;
    return true;
  }
  auto* ip = reinterpret_cast<Ipv4Header*>(&frame[parsed.l3]);
  uint8_t* word = &frame[parsed.l3 + offsetof(Ipv4Header, ttl)];
  const uint16_t before = load_raw16(word);
  ip->proto = *proto;
  ip->checksum = update16(ip->checksum, before, load_raw16(word));
  return true;
}

bool set_ipv4_src(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* addr) {
  return set_ipv4_address(packet, parsed, offsetof(Ipv4Header, src), addr);
}

bool set_ipv4_dst(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* addr) {
  return set_ipv4_address(packet, parsed, offsetof(Ipv4Header, dst), addr);
}

bool set_ipv6_src(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* addr) {
  return set_ipv6_address(packet, parsed, offsetof(Ipv6Header, src), addr);
}

bool set_ipv6_dst(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* addr) {
  return set_ipv6_address(packet, parsed, offsetof(Ipv6Header, dst), addr);
}

bool set_ipv6_flabel(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* label) {
  if (!parsed.has(kIpv6)) return false;
  constexpr uint32_t kLabel = 0x000fffff;
  uint8_t* l3 = &frame_of(packet)[parsed.l3];
  store_be32(l3, (load_be32(l3) & ~kLabel) | (load_be32(label) & kLabel));
  return true;
}

bool set_l4_src(rte_mbuf* packet, const ParsedPacket& parsed, uint8_t proto, const uint8_t* port) {
  return set_port(packet, parsed, proto, 0, port);
}

bool set_l4_dst(rte_mbuf* packet, const ParsedPacket& parsed, uint8_t proto, const uint8_t* port) {
  return set_port(packet, parsed, proto, 2, port);
}

bool set_icmp_type(rte_mbuf* packet, const ParsedPacket& parsed, uint8_t proto,
                   const uint8_t* type) {
  return set_icmp_octet(packet, parsed, proto, offsetof(IcmpHeader, type), *type);
}

bool set_icmp_code(rte_mbuf* packet, const ParsedPacket& parsed, uint8_t proto,
                   const uint8_t* code) {
  return set_icmp_octet(packet, parsed, proto, offsetof(IcmpHeader, code), *code);
}

bool set_nd_target(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* addr) {
  return is_neighbor_discovery(packet, parsed) &&
         write_nd(packet, parsed, offsetof(NeighborDiscovery, target), addr, kIpv6Address);
}

bool set_nd_sll(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* mac) {
  return parsed.nd_source_link != 0 && write_nd(packet, parsed, parsed.nd_source_link, mac, 6);
}

bool set_nd_tll(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* mac) {
  return parsed.nd_target_link != 0 && write_nd(packet, parsed, parsed.nd_target_link, mac, 6);
}

}  // namespace headrace::packet
