// SPDX-License-Identifier: Apache-2.0
#include "match/fields/extract.h"

#include <rte_prefetch.h>

#include <array>

#include "match/fields/extract_vector.h"
#include "packet/bytes.h"
#include "packet/headers.h"

namespace headrace::match {
namespace {

using packet::load_raw16;
using packet::load_raw32;
using packet::load_raw64;
using packet::ParsedPacket;
using packet::swap16;

/// Packets whose first bytes are fetched ahead of the one at work.
constexpr size_t kPrefetchAhead = 6;

constexpr uint64_t kMacMask = 0x0000ffffffffffff;
constexpr uint16_t kVidPresent = swap16(0x1000);  // OFPVID_PRESENT
constexpr uint16_t kVidMask = swap16(0x0fff);
constexpr uint16_t kTcpFlagsMask = swap16(0x0fff);

// What an IP protocol has at L4.
constexpr uint8_t kL4Known = 1;
constexpr uint8_t kL4Ports = 2;
constexpr std::array<uint8_t, 256> make_l4_kinds() {
  std::array<uint8_t, 256> kinds{};
  for (unsigned proto = 0; proto < 256; ++proto) {
    if (packet::l4_header_size(static_cast<uint8_t>(proto)) != 0) kinds[proto] = kL4Known;
  }
  kinds[packet::kProtoTcp] |= kL4Ports;
  kinds[packet::kProtoUdp] |= kL4Ports;
  kinds[packet::kProtoSctp] |= kL4Ports;
  return kinds;
}
constexpr std::array<uint8_t, 256> kL4Kinds = make_l4_kinds();

// The straight path writes FlowKey and ParsedPacket as whole words: pin where things lie.
static_assert(offsetof(FlowKey, eth_type) == 6 && offsetof(FlowKey, vlan_vid) == 14);
static_assert(offsetof(FlowKey, ip_dscp) == 33 && offsetof(FlowKey, ip_ecn) == 34);
static_assert(offsetof(FlowKey, vlan_pcp) == 35 && offsetof(FlowKey, l4_src) == 36);
static_assert(offsetof(FlowKey, tcp_flags) == 9 * 8 + 6);
static_assert(offsetof(ParsedPacket, l3) == 2 && offsetof(ParsedPacket, l4) == 4);
static_assert(offsetof(ParsedPacket, eth_type) == 6 && offsetof(ParsedPacket, flags) == 8);
static_assert(offsetof(ParsedPacket, ip_proto) == 12 && offsetof(ParsedPacket, vlan_tags) == 13);

inline void store_parsed(ParsedPacket& parsed, uint64_t low, uint64_t high) {
  packet::store_raw64(reinterpret_cast<uint8_t*>(&parsed), low);
  packet::store_raw64(reinterpret_cast<uint8_t*>(&parsed) + 8, high);
}

constexpr uint64_t word4(uint8_t proto, uint8_t traffic_class, uint8_t vlan_pcp, uint32_t ports) {
  return uint64_t{proto} | uint64_t{traffic_class} >> 2 << 8 | (uint64_t{traffic_class} & 3) << 16 |
         uint64_t{vlan_pcp} << 24 | uint64_t{ports} << 32;
}

/// Words 3 and 4 beyond VLAN's priority; true if the packet is IP.
inline void fill_l3(Depth depth, const uint8_t* frame, const ParsedPacket& parsed, uint8_t vlan_pcp,
                    FlowKey& values) {
  uint64_t addresses = 0;
  uint8_t traffic_class = 0;
  if (parsed.has(packet::kIpv4)) {
    const uint8_t* ip = frame + parsed.l3;
    addresses = load_raw64(ip + offsetof(packet::Ipv4Header, src));
    traffic_class = ip[offsetof(packet::Ipv4Header, tos)];
  } else if (parsed.has(packet::kIpv6)) {
    traffic_class = static_cast<uint8_t>(packet::load_be16(frame + parsed.l3) >> 4);
  }
  uint32_t ports = 0;
  if (depth >= Depth::l4 && parsed.l4 != 0 && (kL4Kinds[parsed.ip_proto] & kL4Ports) != 0) {
    ports = load_raw32(frame + parsed.l4);
  }
  set_word(values, 3, addresses);
  set_word(values, 4, word4(parsed.ip_proto, traffic_class, vlan_pcp, ports));
}

void fill_ipv6(const uint8_t* frame, const ParsedPacket& parsed, FlowKey& values) {
  const uint8_t* ip = frame + parsed.l3;
  values.ipv6_flabel = load_raw32(ip) & packet::swap32(0x000fffff);
  values.ipv6_exthdr = swap16(parsed.ipv6_exthdr);
  std::memcpy(values.ipv6_src, ip + offsetof(packet::Ipv6Header, src), sizeof values.ipv6_src);
  std::memcpy(values.ipv6_dst, ip + offsetof(packet::Ipv6Header, dst), sizeof values.ipv6_dst);
}

/// ICMP, ICMPv6 with neighbor discovery, and TCP's flags. `size`: octets of the frame.
void fill_l4(const uint8_t* frame, size_t size, const ParsedPacket& parsed, FlowKey& values) {
  const uint8_t* l4 = frame + parsed.l4;
  if (parsed.ip_proto == packet::kProtoTcp) {
    values.tcp_flags = load_raw16(l4 + offsetof(packet::TcpHeader, offset_flags)) & kTcpFlagsMask;
    return;
  }
  const bool icmpv6 = parsed.ip_proto == packet::kProtoIcmpv6 && parsed.has(packet::kIpv6);
  const bool icmp = parsed.ip_proto == packet::kProtoIcmp && parsed.has(packet::kIpv4);
  if (!icmpv6 && !icmp) return;
  values.icmp_type = l4[0];
  values.icmp_code = l4[1];
  const bool neighbor = values.icmp_type == packet::kIcmpv6NeighborSolicitation ||
                        values.icmp_type == packet::kIcmpv6NeighborAdvertisement;
  if (!icmpv6 || !neighbor || parsed.l4 + sizeof(packet::NeighborDiscovery) > size) return;
  std::memcpy(values.ipv6_nd_target, l4 + offsetof(packet::NeighborDiscovery, target),
              sizeof values.ipv6_nd_target);
  if (parsed.nd_source_link != 0) {
    std::memcpy(values.link_source, l4 + parsed.nd_source_link, sizeof values.link_source);
  }
  if (parsed.nd_target_link != 0) {
    std::memcpy(values.link_target, l4 + parsed.nd_target_link, sizeof values.link_target);
  }
}

void fill_arp(const uint8_t* frame, const ParsedPacket& parsed, FlowKey& values) {
  const auto* arp = reinterpret_cast<const packet::ArpHeader*>(frame + parsed.l3);
  values.arp_op = arp->operation;
  values.arp_spa = arp->sender_ip;
  values.arp_tpa = arp->target_ip;
  std::memcpy(values.link_source, arp->sender_mac, sizeof values.link_source);
  std::memcpy(values.link_target, arp->target_mac, sizeof values.link_target);
}

/// Words 7..18. `values` has them zeroed.
void fill_rest(const uint8_t* frame, size_t size, const ParsedPacket& parsed, FlowKey& values) {
  if (parsed.has(packet::kIpv6)) fill_ipv6(frame, parsed, values);
  if (parsed.l4 != 0) fill_l4(frame, size, parsed, values);
  if (parsed.has(packet::kArp)) fill_arp(frame, parsed, values);
  if (parsed.has(packet::kMpls)) {
    const uint32_t entry = packet::load_be32(frame + parsed.l2_end);
    values.mpls_label = packet::swap32(entry >> 12);
    values.mpls_tc = static_cast<uint8_t>(entry >> 9 & 7);
    values.mpls_bos = static_cast<uint8_t>(entry >> 8 & 1);
  }
  if (parsed.has(packet::kPbb)) {
    const uint32_t tci = packet::load_be32(frame + parsed.l2_end);
    values.pbb_isid = packet::swap32(tci & 0x00ffffff);
    values.pbb_uca = static_cast<uint8_t>(tci >> 27 & 1);
  }
}

/// Zeroes words 7..18. By hand, as a call to memset() costs more than the stores.
inline void zero_rest(FlowKey& values) {
  using Pair = uint64_t __attribute__((vector_size(16), may_alias));
  constexpr size_t kPairs = 9;
  auto* pairs = reinterpret_cast<Pair*>(&values);
  set_word(values, 7, 0);
#pragma GCC unroll 16
  for (size_t i = 4; i < kPairs; ++i) pairs[i] = Pair{};
  set_word(values, kTunnelAddressWord - 1, 0);
}

/// Everything that `parsed` promises, whatever the packet is.
void fill(Depth depth, const uint8_t* frame, size_t size, const ParsedPacket& parsed,
          FlowKey& values) {
  uint64_t word0 = 0;
  uint64_t word1 = 0;
  uint8_t vlan_pcp = 0;
  if (parsed.l2_end != 0) {
    word0 = (load_raw64(frame) & kMacMask) | uint64_t{parsed.eth_type} << 48;
    word1 = load_raw64(frame + 6) & kMacMask;
  }
  if (parsed.vlan_tags != 0) {
    const uint16_t tci = load_raw16(frame + sizeof(packet::EthernetHeader));
    const auto vid = static_cast<uint16_t>((tci & kVidMask) | kVidPresent);
    word1 |= uint64_t{vid} << 48;
    vlan_pcp = static_cast<uint8_t>((tci & 0xff) >> 5);
  }
  set_word(values, 0, word0);
  set_word(values, 1, word1);
  if (depth == Depth::l2) return;
  fill_l3(depth, frame, parsed, vlan_pcp, values);
  if (depth != Depth::full) return;
  zero_rest(values);
  fill_rest(frame, size, parsed, values);
}

}  // namespace

[[gnu::noinline]] void extract_any(Depth depth, const rte_mbuf* packet, FlowKey& values,
                                   ParsedPacket& parsed) noexcept {
  const auto* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
  parsed = packet::parse({frame, packet->data_len}, depth);
  fill(depth, frame, packet->data_len, parsed, values);
}

namespace {

/// The straight path: Ethernet with at most one tag and, beyond depth l2, IPv4 without options, not
/// fragmented, long enough for any L4 header. False: not such a packet, nothing written.
template <Depth depth>
inline bool extract_usual(const rte_mbuf* packet, FlowKey& values, ParsedPacket& parsed) {
  constexpr size_t kEthernet = sizeof(packet::EthernetHeader);
  constexpr size_t kTag = sizeof(packet::VlanTag);
  constexpr size_t kIp = sizeof(packet::Ipv4Header);
  constexpr size_t kLongestL4 = sizeof(packet::TcpHeader);
  constexpr size_t kBeyondL2 = depth == Depth::l2 ? 0 : kIp + kLongestL4;

  const size_t size = packet->data_len;
  if (size < kEthernet + kTag + kBeyondL2) [[unlikely]] {
    return false;
  }
  const auto* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
  uint16_t type = load_raw16(frame + kEthernet - 2);
  size_t l2_end = kEthernet;
  uint64_t vid = 0;
  uint8_t vlan_pcp = 0;
  if (packet::is_vlan_type(type)) {
    const uint16_t tci = load_raw16(frame + kEthernet);
    type = load_raw16(frame + kEthernet + 2);
    if (packet::is_vlan_type(type)) [[unlikely]] {
      return false;
    }
    vid = static_cast<uint16_t>((tci & kVidMask) | kVidPresent);
    vlan_pcp = static_cast<uint8_t>((tci & 0xff) >> 5);
    l2_end = kEthernet + kTag;
  }
  const uint64_t word0 = (load_raw64(frame) & kMacMask) | uint64_t{type} << 48;
  const uint64_t word1 = (load_raw64(frame + 6) & kMacMask) | vid << 48;
  const uint64_t tags = l2_end != kEthernet ? 1 : 0;

  if constexpr (depth == Depth::l2) {
    set_word(values, 0, word0);
    set_word(values, 1, word1);
    store_parsed(parsed, l2_end | uint64_t{type} << 48, tags << 40);
    return true;
  } else {
    if (type != packet::kTypeIpv4) return false;
    const uint8_t* ip = frame + l2_end;
    const size_t total = packet::load_be16(ip + offsetof(packet::Ipv4Header, total_length));
    constexpr uint16_t kOffsetOrMore = swap16(0x3fff);
    const bool whole =
        (load_raw16(ip + offsetof(packet::Ipv4Header, fragment)) & kOffsetOrMore) == 0;
    if (ip[0] != 0x45 || !whole || total < kIp + kLongestL4) return false;

    const uint8_t proto = ip[offsetof(packet::Ipv4Header, proto)];
    const uint8_t kind = kL4Kinds[proto];
    if constexpr (depth == Depth::full) {
      if (proto == packet::kProtoIcmp) return false;
    }
    const uint8_t* l4 = ip + kIp;
    const uint32_t ports = depth >= Depth::l4 && (kind & kL4Ports) != 0 ? load_raw32(l4) : 0;
    set_word(values, 0, word0);
    set_word(values, 1, word1);
    set_word(values, 3, load_raw64(ip + offsetof(packet::Ipv4Header, src)));
    set_word(values, 4, word4(proto, ip[offsetof(packet::Ipv4Header, tos)], vlan_pcp, ports));
    if constexpr (depth == Depth::full) {
      zero_rest(values);
      if (proto == packet::kProtoTcp) {
        values.tcp_flags =
            load_raw16(l4 + offsetof(packet::TcpHeader, offset_flags)) & kTcpFlagsMask;
      }
    }
    const uint64_t l4_offset = depth >= Depth::l4 && (kind & kL4Known) != 0 ? l2_end + kIp : 0;
    store_parsed(parsed, l2_end | l2_end << 16 | l4_offset << 32 | uint64_t{type} << 48,
                 uint64_t{packet::kIpv4} | uint64_t{proto} << 32 | tags << 40);
    return true;
  }
}

/// Metadata are for the variant, which has them nearly for nothing.
template <Depth depth>
BurstMetadata extract_burst(std::span<rte_mbuf* const> packets, BurstPort port, FlowKey* values,
                            ParsedPacket* parsed) noexcept {
  const uint64_t ports =
      uint64_t{packet::swap32(port.in_port)} | uint64_t{packet::swap32(port.in_phy_port)} << 32;
  const size_t count = packets.size();
  for (size_t i = 0; i < count && i < kPrefetchAhead; ++i) {
    rte_prefetch0(rte_pktmbuf_mtod(packets[i], const void*));
  }
  for (size_t i = 0; i < count; ++i) {
    if (i + kPrefetchAhead < count) {
      rte_prefetch0(rte_pktmbuf_mtod(packets[i + kPrefetchAhead], const void*));
    }
    FlowKey& to = values[i];
    set_word(to, 2, ports);
    set_word(to, 5, 0);
    set_word(to, 6, 0);
    if constexpr (depth == Depth::full) {
      for (size_t word = kTunnelAddressWord; word < kFieldWords; ++word) set_word(to, word, 0);
    }
    if (!extract_usual<depth>(packets[i], to, parsed[i])) [[unlikely]] {
      extract_any(depth, packets[i], to, parsed[i]);
    }
  }
  return {};
}

}  // namespace

Extractor extractor_for(Depth depth) noexcept {
  if (simd() == Simd::avx512) return avx512_extractor_for(depth);
  if (simd() == Simd::avx2) return avx2_extractor_for(depth);
  switch (depth) {
    case Depth::l2:
      return extract_burst<Depth::l2>;
    case Depth::l3:
      return extract_burst<Depth::l3>;
    case Depth::l4:
      return extract_burst<Depth::l4>;
    case Depth::full:
      break;
  }
  return extract_burst<Depth::full>;
}

void refresh(Depth depth, rte_mbuf* packet, FlowKey& values, ParsedPacket& parsed) noexcept {
  extract_any(depth, packet, values, parsed);
}

void refresh_values(Depth depth, const rte_mbuf* packet, FlowKey& values,
                    const ParsedPacket& parsed) noexcept {
  fill(depth, rte_pktmbuf_mtod(packet, const uint8_t*), packet->data_len, parsed, values);
}

}  // namespace headrace::match
