// SPDX-License-Identifier: Apache-2.0
#include "packet/offload.h"

#include <rte_ip.h>

#include <algorithm>
#include <cstring>

#include "packet/checksum.h"
#include "packet/headers.h"

namespace headrace::packet {
namespace {

constexpr uint8_t kFin = 0x01;
constexpr uint8_t kPsh = 0x08;
constexpr uint8_t kCwr = 0x80;

bool is_udp(uint64_t flags) {
  return (flags & kChecksumLeft) == RTE_MBUF_F_TX_UDP_CKSUM;
}

uint8_t* at(rte_mbuf* packet, uint32_t offset) {
  return rte_pktmbuf_mtod_offset(packet, uint8_t*, offset);
}

/// Octets from the L4 header on that the IP header at `l3` claims, at most what there is.
uint32_t l4_length(const rte_mbuf* packet, uint32_t l4) {
  const uint32_t l3 = l4 - packet->l3_len;
  const auto* ip = rte_pktmbuf_mtod_offset(packet, const uint8_t*, l3);
  const bool ipv4 = (packet->ol_flags & RTE_MBUF_F_TX_IPV4) != 0;
  const uint32_t end =
      l3 + (ipv4 ? load_be16(ip + offsetof(Ipv4Header, total_length))
                 : sizeof(Ipv6Header) + load_be16(ip + offsetof(Ipv6Header, payload_length)));
  return std::min(std::max(end, l4), packet->pkt_len) - l4;
}

/// Completes a checksum at `field`, which lies in what is summed and holds the pseudo-header's sum.
void complete(rte_mbuf* packet, uint32_t l4, uint32_t length, uint8_t* field, bool udp) {
  uint16_t sum = 0;
  rte_raw_cksum_mbuf(packet, l4, length, &sum);
  sum = static_cast<uint16_t>(~sum);
  store_raw16(field, udp ? udp_nonzero(sum) : sum);
}

/// Copies octets of a chain, which has them, to the end of another one, which grows by buffers of
/// its pool; false: there is none.
bool append(rte_mbuf* to, const rte_mbuf* from, uint32_t offset, uint32_t octets) {
  while (from != nullptr && offset >= from->data_len) {
    offset -= from->data_len;
    from = from->next;
  }
  rte_mbuf* tail = rte_pktmbuf_lastseg(to);
  while (octets > 0 && from != nullptr) {
    if (rte_pktmbuf_tailroom(tail) == 0) {
      rte_mbuf* more = rte_pktmbuf_alloc(to->pool);
      if (more == nullptr) return false;
      tail->next = more;
      tail = more;
      ++to->nb_segs;
    }
    const uint32_t part =
        std::min({octets, from->data_len - offset, uint32_t{rte_pktmbuf_tailroom(tail)}});
    std::memcpy(rte_pktmbuf_mtod_offset(tail, uint8_t*, tail->data_len),
                rte_pktmbuf_mtod_offset(from, const uint8_t*, offset), part);
    tail->data_len = static_cast<uint16_t>(tail->data_len + part);
    to->pkt_len += part;
    octets -= part;
    offset += part;
    if (offset == from->data_len) {
      from = from->next;
      offset = 0;
    }
  }
  return octets == 0;
}

/// Sets the lengths and the checksum of an IP header at `l3`, whose packet ends where `made` does.
void fix_ip(rte_mbuf* made, uint32_t l3, bool ipv4, uint32_t index) {
  uint8_t* ip = at(made, l3);
  const auto length = static_cast<uint16_t>(made->pkt_len - l3);
  if (!ipv4) {
    store_be16(ip + offsetof(Ipv6Header, payload_length),
               static_cast<uint16_t>(length - sizeof(Ipv6Header)));
    return;
  }
  uint8_t* id = ip + offsetof(Ipv4Header, id);
  store_be16(id, static_cast<uint16_t>(load_be16(id) + index));
  store_be16(ip + offsetof(Ipv4Header, total_length), length);
  store_raw16(ip + offsetof(Ipv4Header, checksum), 0);
  const size_t octets = (ip[0] & 0x0fu) * 4u;
  store_raw16(ip + offsetof(Ipv4Header, checksum), checksum({ip, octets}));
}

/// Sum of the pseudo-header of the IP header at `ip`.
uint16_t pseudo_sum(const uint8_t* ip, bool ipv4, uint8_t proto, uint32_t l4_octets) {
  if (ipv4) {
    return fold(pseudo_ipv4(load_raw32(ip + offsetof(Ipv4Header, src)),
                            load_raw32(ip + offsetof(Ipv4Header, dst)), proto,
                            static_cast<uint16_t>(l4_octets)));
  }
  return fold(pseudo_ipv6(ip + offsetof(Ipv6Header, src), ip + offsetof(Ipv6Header, dst), proto,
                          l4_octets));
}

/// Gives the tunnel headers around a segment their lengths and checksums.
void fix_tunnel(rte_mbuf* made, const rte_mbuf* packet, uint32_t index) {
  const uint32_t l3 = packet->outer_l2_len;
  const uint32_t l4 = l3 + packet->outer_l3_len;
  const bool ipv4 = at(made, l3)[0] >> 4 == 4;
  fix_ip(made, l3, ipv4, index);
  uint8_t* header = at(made, l4);
  const uint32_t octets = made->pkt_len - l4;
  if ((packet->ol_flags & RTE_MBUF_F_TX_TUNNEL_MASK) == RTE_MBUF_F_TX_TUNNEL_GRE) {
    constexpr uint8_t kHasChecksum = 0x80;
    if ((header[0] & kHasChecksum) == 0) return;
    uint8_t* field = header + sizeof(GreHeader);
    store_raw16(field, 0);
    complete(made, l4, octets, field, false);
    return;
  }
  store_be16(header + offsetof(UdpHeader, length), static_cast<uint16_t>(octets));
  if ((packet->ol_flags & RTE_MBUF_F_TX_TUNNEL_MASK) == RTE_MBUF_F_TX_TUNNEL_GTP) {
    store_be16(header + sizeof(UdpHeader) + offsetof(GtpuHeader, length),
               static_cast<uint16_t>(octets - sizeof(UdpHeader) - sizeof(GtpuHeader)));
  }
  uint8_t* field = header + offsetof(UdpHeader, checksum);
  if (load_raw16(field) == 0) return;
  store_raw16(field, pseudo_sum(at(made, l3), ipv4, kProtoUdp, octets));
  complete(made, l4, octets, field, true);
}

}  // namespace

void finish_checksum(rte_mbuf* packet) noexcept {
  if (offload_left(packet)) {
    const bool udp = is_udp(packet->ol_flags);
    const uint32_t l4 = l4_offset(packet);
    uint8_t* field =
        at(packet, l4 + (udp ? offsetof(UdpHeader, checksum) : offsetof(TcpHeader, checksum)));
    complete(packet, l4, l4_length(packet, l4), field, udp);
  }
  forget_offload(packet);
}

Segments::Segments(const rte_mbuf* packet) noexcept
    : packet_(packet),
      l4_(l4_offset(packet)),
      headers_(l4_ + packet->l4_len),
      payload_(0),
      size_(packet->tso_segsz) {
  const uint32_t end = l4_ + l4_length(packet, l4_);
  payload_ = end > headers_ ? end - headers_ : 0;
  if (size_ != 0) count_ = std::max((payload_ + size_ - 1) / size_, 1u);
}

rte_mbuf* Segments::next() noexcept {
  if (given_ == count_) return nullptr;
  rte_mbuf* made = rte_pktmbuf_alloc(packet_->pool);
  if (made == nullptr) return nullptr;
  const uint32_t from = given_ * size_;
  const uint32_t octets = std::min(size_, payload_ - from);
  if (!append(made, packet_, 0, headers_) || !append(made, packet_, headers_ + from, octets)) {
    rte_pktmbuf_free(made);
    return nullptr;
  }
  rte_mbuf_dynfield_copy(made, packet_);
  made->port = packet_->port;
  made->ol_flags = packet_->ol_flags & ~kOffloadFlags;
  fix_headers(made, octets);
  ++given_;
  return made;
}

void Segments::fix_headers(rte_mbuf* made, uint32_t payload) const noexcept {
  const uint64_t flags = packet_->ol_flags;
  const bool ipv4 = (flags & RTE_MBUF_F_TX_IPV4) != 0;
  const bool udp = is_udp(flags);
  const uint32_t l3 = l4_ - packet_->l3_len;
  fix_ip(made, l3, ipv4, given_);
  uint8_t* l4 = at(made, l4_);
  const uint32_t l4_octets = packet_->l4_len + payload;
  if (udp) {
    store_be16(l4 + offsetof(UdpHeader, length), static_cast<uint16_t>(l4_octets));
  } else {
    uint8_t* sequence = l4 + offsetof(TcpHeader, sequence);
    store_be32(sequence, load_be32(sequence) + given_ * size_);
    uint8_t& bits = l4[offsetof(TcpHeader, offset_flags) + 1];
    if (given_ != 0) bits &= static_cast<uint8_t>(~kCwr);
    if (given_ + 1 != count_) bits &= static_cast<uint8_t>(~(kFin | kPsh));
  }
  uint8_t* field = l4 + (udp ? offsetof(UdpHeader, checksum) : offsetof(TcpHeader, checksum));
  store_raw16(field, pseudo_sum(at(made, l3), ipv4, udp ? kProtoUdp : kProtoTcp, l4_octets));
  complete(made, l4_, l4_octets, field, udp);
  if ((flags & RTE_MBUF_F_TX_TUNNEL_MASK) != 0) fix_tunnel(made, packet_, given_);
}

}  // namespace headrace::packet
