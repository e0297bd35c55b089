// SPDX-License-Identifier: Apache-2.0
#include "port/kernel/vnet_header.h"

#include <rte_ip.h>

#include <array>

#include "packet/checksum.h"
#include "packet/edit.h"
#include "packet/offload.h"
#include "packet/parse.h"

namespace headrace::port {
namespace {

using packet::Depth;
using packet::ParsedPacket;

constexpr auto kGsoTypes = static_cast<uint8_t>(~kVnetGsoEcn);
constexpr uint8_t kCwr = 0x80;  // TCP's flag, in the second octet of offset_flags

/// CRC32c over a chain from `offset` on.
uint32_t crc_of(const rte_mbuf* packet, uint32_t offset) {
  uint32_t crc = 0;
  for (; packet != nullptr; packet = packet->next) {
    if (offset < packet->data_len) {
      crc = packet::crc32c({rte_pktmbuf_mtod_offset(packet, const uint8_t*, offset),
                            size_t{packet->data_len} - offset},
                           crc);
      offset = 0;
    } else {
      offset -= packet->data_len;
    }
  }
  return crc;
}

/// What skb_checksum_help() and its like do: the sum from `start` to the end of the packet, stored
/// at `offset` from there.
bool complete(rte_mbuf* packet, const ParsedPacket& parsed, uint32_t start, uint16_t offset) {
  if (start + offset + sizeof(uint32_t) > packet->data_len) return false;
  auto* field = rte_pktmbuf_mtod_offset(packet, uint8_t*, start + offset);
  if (parsed.ip_proto == packet::kProtoSctp && parsed.l4 == start && offset == kVnetSctpChecksum) {
    packet::store_raw32(field, 0);
    packet::store_raw32(field, crc_of(packet, start));
    return true;
  }
  uint16_t sum = 0;
  if (rte_raw_cksum_mbuf(packet, start, packet->pkt_len - start, &sum) != 0) return false;
  packet::store_raw16(field, packet::udp_nonzero(static_cast<uint16_t>(~sum)));
  return true;
}

/// The flags for a checksum of `proto` at that place; 0: not one that is carried.
uint64_t checksum_flag(const ParsedPacket& parsed, uint32_t start, uint16_t offset) {
  if (parsed.l4 != start || parsed.has(packet::kFragment | packet::kMpls | packet::kPbb)) return 0;
  if (parsed.l3 >= 1 << RTE_MBUF_L2_LEN_BITS) return 0;
  if (parsed.l4 - parsed.l3 >= 1 << RTE_MBUF_L3_LEN_BITS) return 0;
  if (parsed.ip_proto == packet::kProtoTcp && offset == offsetof(packet::TcpHeader, checksum)) {
    return RTE_MBUF_F_TX_TCP_CKSUM;
  }
  if (parsed.ip_proto == packet::kProtoUdp && offset == offsetof(packet::UdpHeader, checksum)) {
    return RTE_MBUF_F_TX_UDP_CKSUM;
  }
  return 0;
}

/// The flag for segments of this type; 0: they do not fit the packet.
uint64_t segment_flag(uint8_t type, uint64_t checksum, bool ipv4) {
  const bool tcp = checksum == RTE_MBUF_F_TX_TCP_CKSUM;
  switch (type) {
    case kVnetGsoTcp4:
      return tcp && ipv4 ? RTE_MBUF_F_TX_TCP_SEG : 0;
    case kVnetGsoTcp6:
      return tcp && !ipv4 ? RTE_MBUF_F_TX_TCP_SEG : 0;
    case kVnetGsoUdp:
      return tcp ? 0 : RTE_MBUF_F_TX_UDP_SEG;
    default:
      return 0;
  }
}

/// Octets of the L4 header; 0: cut off.
uint32_t l4_header(const rte_mbuf* packet, uint32_t l4, bool udp) {
  if (udp) return sizeof(packet::UdpHeader);
  const auto* tcp = rte_pktmbuf_mtod_offset(packet, const uint8_t*, l4);
  const uint32_t octets = (tcp[offsetof(packet::TcpHeader, offset_flags)] >> 4) * 4u;
  return octets < sizeof(packet::TcpHeader) || l4 + octets > packet->data_len ? 0 : octets;
}

}  // namespace

bool take_vnet_header(const VnetHeader& header, uint16_t inserted, rte_mbuf* packet) noexcept {
  const auto gso = static_cast<uint8_t>(header.gso_type & kGsoTypes);
  if ((header.flags & kVnetNeedsChecksum) == 0) return gso == kVnetGsoNone;
  const uint32_t start = uint32_t{header.csum_start} + inserted;
  const ParsedPacket parsed = packet::parse(packet::frame_of(packet), Depth::l4);
  const uint64_t checksum = checksum_flag(parsed, start, header.csum_offset);
  if (checksum == 0) {
    return gso == kVnetGsoNone && complete(packet, parsed, start, header.csum_offset);
  }
  const bool ipv4 = parsed.has(packet::kIpv4);
  uint64_t flags = checksum | (ipv4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6);
  packet->tx_offload = 0;
  if (gso != kVnetGsoNone) {
    const uint64_t segments = segment_flag(gso, checksum, ipv4);
    const uint32_t octets = l4_header(packet, parsed.l4, checksum == RTE_MBUF_F_TX_UDP_CKSUM);
    if (segments == 0 || octets == 0 || header.gso_size == 0) return false;
    flags |= segments;
    packet->l4_len = octets & 0xff;
    packet->tso_segsz = header.gso_size;
  }
  packet->l2_len = parsed.l3 & 0x7f;
  packet->l3_len = static_cast<unsigned>(parsed.l4 - parsed.l3) & 0x1ff;
  packet->ol_flags |= flags;
  return true;
}

VnetHeader vnet_header_of(const rte_mbuf* packet) noexcept {
  VnetHeader header{};
  if (!packet::offload_left(packet)) return header;
  const uint64_t flags = packet->ol_flags;
  const bool udp = (flags & packet::kChecksumLeft) == RTE_MBUF_F_TX_UDP_CKSUM;
  const uint32_t l4 = packet::l4_offset(packet);
  header.flags = kVnetNeedsChecksum;
  header.csum_start = static_cast<uint16_t>(l4);
  header.csum_offset =
      udp ? offsetof(packet::UdpHeader, checksum) : offsetof(packet::TcpHeader, checksum);
  if (!packet::segments_left(packet)) return header;
  header.hdr_len = static_cast<uint16_t>(l4 + packet->l4_len);
  header.gso_size = packet->tso_segsz;
  if (udp) {
    header.gso_type = kVnetGsoUdp;
    return header;
  }
  header.gso_type = (flags & RTE_MBUF_F_TX_IPV4) != 0 ? kVnetGsoTcp4 : kVnetGsoTcp6;
  const auto* tcp = rte_pktmbuf_mtod_offset(packet, const uint8_t*, l4);
  if ((tcp[offsetof(packet::TcpHeader, offset_flags) + 1] & kCwr) != 0) {
    header.gso_type |= kVnetGsoEcn;
  }
  return header;
}

}  // namespace headrace::port
