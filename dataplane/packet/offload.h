// SPDX-License-Identifier: Apache-2.0
// Checksums and segmentation that are left to whoever sends a packet (TX offloads).
//
// What. A kernel interface with its default offloads, and a guest that negotiated them, hand over
// TCP and UDP packets whose checksum is not computed yet, and segments of up to 64 KiB that are to
// be cut before they reach a medium. Both stay so through the pipeline: one packet is classified
// where up to 45 would be, and a port that takes such packets (another kernel interface) gets it
// whole. Software does the rest only at an exit that can't (port/software_offload.h).
//
// How. DPDK's own fields of the mbuf say what is left: the TX flags L4_CKSUM, TCP_SEG and UDP_SEG
// with l2_len, l3_len, l4_len and tso_segsz; behind a tunnel header also TUNNEL_*, outer_l2_len and
// outer_l3_len, as rte_mbuf_core.h defines them. The invariants, while a flag is set:
//
// * l4_offset() is where the L4 header begins. Edits that move headers call headers_moved().
// * The L4 checksum field holds the folded sum of the pseudo-header, not complemented, with the
//   length of the whole packet, as Linux and virtio want it (DPDK's drivers want TSO's without the
//   length). So a change of an address is added to it, a change of a port is not (edit_ip.cc).
// * A segmented packet has IP's length of the whole; each segment gets its own.
// * The packet is no fragment, and its headers, L4's included, lie in the first segment of the
// mbuf.
//
// What an edit would break (another protocol, an Ethernet type) is finished before it.
//
// Why not rte_gso: it knows no IPv6, computes no checksum, and its segments are chains of indirect
// buffers, which shared memory and memif would have to copy again.
//
// Thread safety: one packet, one thread.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

namespace headrace::packet {

inline constexpr uint64_t kChecksumLeft = RTE_MBUF_F_TX_L4_MASK;
inline constexpr uint64_t kSegmentsLeft = RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_UDP_SEG;
inline constexpr uint64_t kOffloadLeft = kChecksumLeft | kSegmentsLeft;
inline constexpr uint64_t kIpVersion = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IPV6;
/// All flags that this file sets.
inline constexpr uint64_t kOffloadFlags = kOffloadLeft | kIpVersion | RTE_MBUF_F_TX_TUNNEL_MASK;

/// Something is left to whoever sends it.
[[nodiscard]] inline bool offload_left(const rte_mbuf* packet) noexcept {
  return (packet->ol_flags & kOffloadLeft) != 0;
}

/// It is to be cut into segments.
[[nodiscard]] inline bool segments_left(const rte_mbuf* packet) noexcept {
  return (packet->ol_flags & kSegmentsLeft) != 0;
}

/// Where the L4 header begins whose checksum is left.
[[nodiscard]] inline uint32_t l4_offset(const rte_mbuf* packet) noexcept {
  const bool tunnel = (packet->ol_flags & RTE_MBUF_F_TX_TUNNEL_MASK) != 0;
  return (tunnel ? packet->outer_l2_len + packet->outer_l3_len : 0u) + packet->l2_len +
         packet->l3_len;
}

/// True if `bytes` more (or fewer) in front of L3 can be noted. To be asked before the edit.
[[nodiscard]] inline bool headers_can_move(const rte_mbuf* packet, int bytes) noexcept {
  if (!offload_left(packet)) [[likely]]
    return true;
  const bool tunnel = (packet->ol_flags & RTE_MBUF_F_TX_TUNNEL_MASK) != 0;
  const int length = static_cast<int>(tunnel ? packet->outer_l2_len : packet->l2_len) + bytes;
  return length >= 0 && length < 1 << RTE_MBUF_L2_LEN_BITS;
}

/// Notes that `bytes` came (or went) in front of L3.
inline void headers_moved(rte_mbuf* packet, int bytes) noexcept {
  if (!offload_left(packet)) [[likely]]
    return;
  constexpr unsigned kMask = (1 << RTE_MBUF_L2_LEN_BITS) - 1;
  if ((packet->ol_flags & RTE_MBUF_F_TX_TUNNEL_MASK) != 0) {
    packet->outer_l2_len = (packet->outer_l2_len + static_cast<unsigned>(bytes)) & kMask;
  } else {
    packet->l2_len = (packet->l2_len + static_cast<unsigned>(bytes)) & kMask;
  }
}

/// Nothing is left of it: what was is void, as for a header that is taken off.
inline void forget_offload(rte_mbuf* packet) noexcept {
  packet->ol_flags &= ~kOffloadFlags;
  packet->tx_offload = 0;
}

/// Notes that a tunnel's headers, `bytes` in all, are about to be taken off: what was left of the
/// packet inside stays so, what was left of the outer header is void.
inline void tunnel_taken_off(rte_mbuf* packet, uint16_t bytes) noexcept {
  if (!offload_left(packet)) [[likely]]
    return;
  if ((packet->ol_flags & RTE_MBUF_F_TX_TUNNEL_MASK) == 0) {
    forget_offload(packet);
    return;
  }
  constexpr unsigned kMask = (1 << RTE_MBUF_L2_LEN_BITS) - 1;
  packet->l2_len = (l4_offset(packet) - packet->l3_len - bytes) & kMask;
  packet->outer_l2_len = 0;
  packet->outer_l3_len = 0;
  packet->ol_flags &= ~RTE_MBUF_F_TX_TUNNEL_MASK;
}

/// Computes the checksum that was left; the packet stays as long as it is.
void finish_checksum(rte_mbuf* packet) noexcept;

/// The packets that a packet with segments_left() is to be sent as: complete, each with all
/// headers, lengths and checksums of its own. The packet itself is only read, and stays the
/// caller's.
class Segments {
 public:
  explicit Segments(const rte_mbuf* packet) noexcept;

  /// The next one, of the packet's own pool; null: that was the last, or there is no buffer.
  [[nodiscard]] rte_mbuf* next() noexcept;
  /// Those that next() has not given yet.
  [[nodiscard]] uint32_t left() const noexcept { return count_ - given_; }

 private:
  void fix_headers(rte_mbuf* made, uint32_t payload) const noexcept;

  const rte_mbuf* packet_;
  uint32_t l4_;       ///< offset of the L4 header
  uint32_t headers_;  ///< octets in front of the payload
  uint32_t payload_;  ///< octets of it, padding not counted
  uint32_t size_;     ///< octets of payload per segment
  uint32_t count_{0};
  uint32_t given_{0};
};

}  // namespace headrace::packet
