// SPDX-License-Identifier: Apache-2.0
// Room before a packet, for the headers that are pushed onto it.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <cstring>

namespace headrace::packet {

/// Moves the first segment's octets towards the end of its buffer, so that there are `bytes` octets
/// before the packet. False if the buffer has not that many free, or others share it: then nothing
/// has moved. Offsets into the packet stay true, pointers don't.
inline bool make_headroom(rte_mbuf* packet, uint16_t bytes) noexcept {
  const uint16_t present = rte_pktmbuf_headroom(packet);
  if (present >= bytes) return true;
  const auto missing = static_cast<uint16_t>(bytes - present);
  if (!RTE_MBUF_DIRECT(packet) || rte_mbuf_refcnt_read(packet) != 1) return false;
  if (rte_pktmbuf_tailroom(packet) < missing) return false;
  auto* begin = rte_pktmbuf_mtod(packet, uint8_t*);
  std::memmove(begin + missing, begin, packet->data_len);
  packet->data_off = static_cast<uint16_t>(packet->data_off + missing);
  return true;
}

/// Puts `bytes` octets before a packet, whose first byte is then theirs. Null without room. A
/// buffer's usual headroom (128 octets) holds one tunnel's headers, or two short ones; further
/// ones cost a move of the packet.
inline uint8_t* prepend(rte_mbuf* packet, uint16_t bytes) noexcept {
  if (rte_pktmbuf_headroom(packet) < bytes && !make_headroom(packet, bytes)) [[unlikely]] {
    return nullptr;
  }
  return reinterpret_cast<uint8_t*>(rte_pktmbuf_prepend(packet, bytes));
}

}  // namespace headrace::packet
