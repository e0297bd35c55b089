// SPDX-License-Identifier: Apache-2.0
// A tunnel's header in front of a packet whose checksum or segmentation is left to its sender.
#include "packet/headers.h"
#include "packet/tunnel.h"

namespace headrace::packet {
namespace {

uint64_t offload_flag(TunnelKind kind) {
  switch (kind) {
    case TunnelKind::gre:
      return RTE_MBUF_F_TX_TUNNEL_GRE;
    case TunnelKind::gtpu:
      return RTE_MBUF_F_TX_TUNNEL_GTP;
    default:
      return RTE_MBUF_F_TX_TUNNEL_VXLAN;
  }
}

}  // namespace

/// A checksum is computed now: it is one pass over at most one frame, and what is outside then
/// needs nothing. Segments are cut where the packet leaves, and the lengths and checksums of the
/// outer header are made right there (Segments).
TunnelResult TunnelHeader::push_unfinished(rte_mbuf* packet, const ParsedPacket& parsed,
                                           uint64_t id, uint32_t entropy,
                                           uint32_t max_frame) const noexcept {
  if (!segments_left(packet)) {
    finish_checksum(packet);
    return push_finished(packet, parsed, id, entropy, max_frame);
  }
  // Only one tunnel fits the fields of the mbuf.
  if ((packet->ol_flags & RTE_MBUF_F_TX_TUNNEL_MASK) != 0) return TunnelResult::too_long;
  const uint32_t stripped = spec_.layer3 ? parsed.l3 : 0;
  const uint32_t l3 = l4_offset(packet) - packet->l3_len;
  const uint32_t segment = l3 + packet->l3_len + packet->l4_len + packet->tso_segsz;
  if (size_ + segment - stripped > max_frame) return TunnelResult::too_long;
  const uint32_t inner_l2 = size_ - l4_ + l3 - stripped;
  if (inner_l2 >= 1u << RTE_MBUF_L2_LEN_BITS) return TunnelResult::too_long;
  const TunnelResult result = push_finished(packet, parsed, id, entropy, UINT32_MAX);
  if (result != TunnelResult::done) return result;
  constexpr unsigned kMask = (1 << RTE_MBUF_L2_LEN_BITS) - 1;
  packet->l2_len = inner_l2 & kMask;
  packet->outer_l2_len = sizeof(EthernetHeader);
  packet->outer_l3_len = l4_ - sizeof(EthernetHeader);
  packet->ol_flags |= offload_flag(spec_.kind);
  return result;
}

}  // namespace headrace::packet
