// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/guest_offload.h"

#include <cstring>

#include "packet/edit.h"
#include "packet/offload.h"
#include "packet/parse.h"
#include "port/kernel/vnet_header.h"

namespace headrace::port::vhost {
namespace {

/// Bits of virtio 1.2, section 5.1.3 (linux/virtio_net.h is not for C++).
constexpr uint64_t kCsum = 1ULL << 0;
constexpr uint64_t kGuestCsum = 1ULL << 1;
constexpr uint64_t kGuestTso4 = 1ULL << 7;
constexpr uint64_t kGuestTso6 = 1ULL << 8;
constexpr uint64_t kGuestEcn = 1ULL << 9;
constexpr uint64_t kGuestUfo = 1ULL << 10;
constexpr uint64_t kHostTso4 = 1ULL << 11;
constexpr uint64_t kHostTso6 = 1ULL << 12;
constexpr uint64_t kHostEcn = 1ULL << 13;
constexpr uint64_t kHostUfo = 1ULL << 14;
constexpr uint64_t kMergeable = 1ULL << 15;

constexpr uint64_t kLeft = kCsum | kHostTso4 | kHostTso6 | kHostEcn;
constexpr uint64_t kTaken = kGuestCsum | kGuestTso4 | kGuestTso6;

/// Linux never makes smaller ones (net.ipv4.tcp_min_snd_mss); a guest that could ask for one octet
/// in each would make 65,000 packets of one.
constexpr uint16_t kMinSegment = 48;

constexpr uint64_t kReceiveNotes =
    RTE_MBUF_F_RX_IP_CKSUM_MASK | RTE_MBUF_F_RX_L4_CKSUM_MASK | RTE_MBUF_F_RX_LRO;

/// The longest outer header that an mbuf can note: with it, no header fits the first buffer of a
/// packet that prepare_segmented() has divided.
constexpr unsigned kNoOuterL2 = (1 << RTE_MBUF_OUTL2_LEN_BITS) - 1;
constexpr unsigned kNoOuterL3 = (1 << RTE_MBUF_OUTL3_LEN_BITS) - 1;

}  // namespace

uint64_t features_not_offered(bool offloads) {
  // Which segments have CWR set is not said to guests, so those with ECN are not for them either.
  const uint64_t never = kGuestUfo | kHostUfo | kGuestEcn;
  return offloads ? never : never | kLeft | kTaken;
}

bool guest_leaves(uint64_t features) {
  return (features & kLeft) != 0;
}

uint64_t guest_takes(uint64_t features) {
  if ((features & kGuestCsum) == 0) return 0;
  uint64_t takes = packet::kChecksumLeft;
  if ((features & kGuestTso4) != 0) takes |= RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IPV4;
  if ((features & kGuestTso6) != 0) takes |= RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IPV6;
  return takes;
}

bool guest_merges(uint64_t features) {
  return (features & kMergeable) != 0;
}

bool take_guest_notes(rte_mbuf* packet) noexcept {
  const uint64_t notes = packet->ol_flags;
  const bool segmented = (notes & RTE_MBUF_F_RX_LRO) != 0;
  // NONE is both bits of the mask: BAD and GOOD leave nothing to do.
  if ((notes & RTE_MBUF_F_RX_L4_CKSUM_MASK) != RTE_MBUF_F_RX_L4_CKSUM_NONE && !segmented)
      [[likely]] {
    return true;
  }
  packet->ol_flags &= ~kReceiveNotes;
  const packet::ParsedPacket parsed = packet::parse(packet::frame_of(packet), packet::Depth::l4);
  if (parsed.l4 == 0) return false;
  VnetHeader header{.flags = kVnetNeedsChecksum,
                    .gso_type = kVnetGsoNone,
                    .hdr_len = 0,
                    .gso_size = 0,
                    .csum_start = parsed.l4,
                    .csum_offset = 0};
  switch (parsed.ip_proto) {
    case packet::kProtoTcp:
      header.csum_offset = offsetof(packet::TcpHeader, checksum);
      break;
    case packet::kProtoUdp:
      header.csum_offset = offsetof(packet::UdpHeader, checksum);
      break;
    case packet::kProtoSctp:
      header.csum_offset = kVnetSctpChecksum;
      break;
    default:
      return false;
  }
  if (segmented) {
    if (packet->tso_segsz < kMinSegment) return false;
    header.gso_size = packet->tso_segsz;
    header.gso_type = parsed.has(packet::kIpv4) ? kVnetGsoTcp4 : kVnetGsoTcp6;
  }
  packet->tx_offload = 0;
  return take_vnet_header(header, 0, packet);
}

bool prepare_segmented(rte_mbuf*& packet) noexcept {
  const uint32_t headers = packet::l4_offset(packet) + packet->l4_len;
  if (packet->data_len > headers) {
    rte_mbuf* first = rte_pktmbuf_alloc(packet->pool);
    if (first == nullptr) return false;
    std::memcpy(rte_pktmbuf_mtod(first, uint8_t*), rte_pktmbuf_mtod(packet, const uint8_t*),
                headers);
    rte_mbuf_dynfield_copy(first, packet);
    first->data_len = static_cast<uint16_t>(headers);
    first->pkt_len = packet->pkt_len;
    first->nb_segs = static_cast<uint16_t>(packet->nb_segs + 1);
    first->port = packet->port;
    first->ol_flags = packet->ol_flags;
    first->tx_offload = packet->tx_offload;
    packet->data_off = static_cast<uint16_t>(packet->data_off + headers);
    packet->data_len = static_cast<uint16_t>(packet->data_len - headers);
    first->next = packet;
    packet = first;
  }
  packet->outer_l2_len = kNoOuterL2;
  packet->outer_l3_len = kNoOuterL3;
  packet->ol_flags |= RTE_MBUF_F_TX_OUTER_IPV4;
  return true;
}

}  // namespace headrace::port::vhost
