// SPDX-License-Identifier: Apache-2.0
// struct virtio_net_hdr, by which the kernel says, in front of a frame of a packet socket or a tap,
// what is left to do (linux/virtio_net.h; virtio 1.2, 5.1.6), and the mbuf's own notes of the same
// (packet/offload.h).
//
// Thread safety: pure functions of one packet.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

namespace headrace::port {

/// struct virtio_net_hdr of Linux, whose own header is no C++; integers as the host has them.
struct VnetHeader {
  uint8_t flags;
  uint8_t gso_type;
  uint16_t hdr_len;
  uint16_t gso_size;
  uint16_t csum_start;
  uint16_t csum_offset;
};
static_assert(sizeof(VnetHeader) == 10);

inline constexpr uint8_t kVnetNeedsChecksum = 1;
inline constexpr uint8_t kVnetGsoNone = 0;
inline constexpr uint8_t kVnetGsoTcp4 = 1;
inline constexpr uint8_t kVnetGsoTcp6 = 4;
inline constexpr uint8_t kVnetGsoUdp = 5;
inline constexpr uint8_t kVnetGsoEcn = 0x80;

/// Where SCTP's header has its checksum, a CRC32c.
inline constexpr uint16_t kVnetSctpChecksum = 8;

/// What this kind of header can tell, as Port::tx_offloads() says it.
inline constexpr uint64_t kVnetOffloads = RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_TCP_SEG |
                                          RTE_MBUF_F_TX_UDP_SEG | RTE_MBUF_F_TX_IPV4 |
                                          RTE_MBUF_F_TX_IPV6;

/// Notes in the packet what `header` says of it; `inserted` octets were put in front of L3 since. A
/// checksum that the pipeline would not carry (not TCP's or UDP's, inside a tunnel, of a fragment)
/// is computed here. False: segments of such a packet, or a header that contradicts the frame; the
/// packet is to be dropped.
[[nodiscard]] bool take_vnet_header(const VnetHeader& header, uint16_t inserted,
                                    rte_mbuf* packet) noexcept;

/// What the packet's notes say.
[[nodiscard]] VnetHeader vnet_header_of(const rte_mbuf* packet) noexcept;

}  // namespace headrace::port
