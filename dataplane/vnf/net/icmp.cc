// SPDX-License-Identifier: Apache-2.0
#include "vnf/net/icmp.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "vnf/net/ipv4_frame.h"

namespace headrace::vnf {
namespace {

/// ICMP header with the second word of errors and echo messages.
struct __attribute__((packed)) IcmpMessage {
  packet::IcmpHeader header;
  uint16_t unused;
  uint16_t mtu;  ///< RFC 1191, 4
};
static_assert(sizeof(IcmpMessage) == 8);

constexpr size_t kMaxOctets = 576;

bool is_icmp_error(rte_mbuf* frame) {
  const auto l4 = l4_of(frame);
  if (ipv4_of(frame).proto != packet::kProtoIcmp) return false;
  if (l4.empty()) return true;  // unknown: treated as an error, so that none is sent
  const uint8_t type = l4[0];
  // Everything but the queries of RFC 792 and RFC 950 is an error or unknown.
  return type != kIcmpEchoReply && type != kIcmpEchoRequest && (type < 13 || type > 18);
}

bool is_single_host(uint32_t address) {
  return address != 0 && address >> 28 < 14 && address >> 24 != 127;
}

}  // namespace

bool may_cause_icmp_error(rte_mbuf* frame) {
  const auto& ip = ipv4_of(frame);
  return (ethernet_of(frame).dst[0] & 1) == 0 && !is_later_fragment(ip) &&
         is_single_host(packet::swap32(ip.src)) && packet::swap32(ip.dst) >> 28 != 14 &&
         packet::swap32(ip.dst) != UINT32_MAX && !is_icmp_error(frame);
}

rte_mbuf* make_icmp_error(rte_mempool* pool, rte_mbuf* about, Ipv4Address source, uint8_t type,
                          uint8_t code, uint16_t mtu) {
  rte_mbuf* frame = rte_pktmbuf_alloc(pool);
  if (frame == nullptr) return nullptr;
  const auto& original = ipv4_of(about);
  constexpr size_t kHeaders = sizeof(packet::Ipv4Header) + sizeof(IcmpMessage);
  const size_t held = rte_pktmbuf_data_len(about) - sizeof(packet::EthernetHeader);
  const size_t quoted =
      std::min({size_t{packet::swap16(original.total_length)}, held, kMaxOctets - kHeaders});
  const size_t size = sizeof(packet::EthernetHeader) + kHeaders + quoted;
  auto* bytes = reinterpret_cast<uint8_t*>(rte_pktmbuf_append(frame, static_cast<uint16_t>(size)));
  if (bytes == nullptr) {  // the pool's buffers are too small
    rte_pktmbuf_free(frame);
    return nullptr;
  }
  std::memset(bytes, 0, size - quoted);
  ethernet_of(frame).type = packet::kTypeIpv4;
  auto& ip = ipv4_of(frame);
  ip.version_ihl = 0x45;
  ip.tos = 0xc0;  // internetwork control: RFC 1812, 4.3.2.5
  ip.total_length = packet::swap16(static_cast<uint16_t>(kHeaders + quoted));
  ip.ttl = 64;
  ip.proto = packet::kProtoIcmp;
  ip.src = packet::swap32(source);
  ip.dst = original.src;
  ip.checksum = packet::checksum({reinterpret_cast<const uint8_t*>(&ip), sizeof ip});
  auto* icmp = reinterpret_cast<IcmpMessage*>(&ip + 1);
  icmp->header.type = type;
  icmp->header.code = code;
  icmp->mtu = packet::swap16(mtu);
  std::memcpy(icmp + 1, &original, quoted);
  icmp->header.checksum =
      packet::checksum({reinterpret_cast<const uint8_t*>(icmp), sizeof *icmp + quoted});
  return frame;
}

bool answer_echo(rte_mbuf* frame) {
  auto& ip = ipv4_of(frame);
  const auto l4 = l4_of(frame);
  const size_t length = packet::swap16(ip.total_length) - ipv4_header_size(ip);
  if (ip.proto != packet::kProtoIcmp || is_fragment(ip) || l4.size() != length ||
      l4.size() < sizeof(IcmpMessage) || l4[0] != kIcmpEchoRequest || l4[1] != 0 ||
      packet::checksum(l4) != 0) {
    return false;
  }
  auto& icmp = *reinterpret_cast<packet::IcmpHeader*>(l4.data());
  icmp.checksum = packet::update16(icmp.checksum, packet::swap16(kIcmpEchoRequest << 8),
                                   packet::swap16(kIcmpEchoReply << 8));
  icmp.type = kIcmpEchoReply;
  const uint32_t source = ip.src;
  ip.src = ip.dst;
  ip.dst = source;
  ip.ttl = 64;
  ip.checksum = 0;
  ip.checksum = packet::checksum({reinterpret_cast<const uint8_t*>(&ip), ipv4_header_size(ip)});
  return true;
}

}  // namespace headrace::vnf
