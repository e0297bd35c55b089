// SPDX-License-Identifier: Apache-2.0
// Gives a burst of packets back to their pool.
//
// As rte_pktmbuf_free_bulk(), which looks at each segment of each packet and gathers them by pool.
// Nearly all bursts are packets of one segment and of one pool that nobody else has: these are
// given back as they are, and only the first cache line of each is read.
//
// Thread safety: as for rte_pktmbuf_free_bulk().
#pragma once

#include <rte_mbuf.h>

#include <span>

namespace headrace::packet {

/// Whether all that is to be done with the packet is to give its one buffer back.
inline bool is_plain(const rte_mbuf* packet) noexcept {
  return rte_mbuf_refcnt_read(packet) == 1 && packet->nb_segs == 1 && RTE_MBUF_DIRECT(packet);
}

/// No packet may be null.
inline void free_burst(std::span<rte_mbuf*> packets) noexcept {
  if (packets.empty()) return;
  const auto count = static_cast<unsigned>(packets.size());
  rte_mempool* const pool = packets[0]->pool;
  for (const rte_mbuf* packet : packets) {
    if (is_plain(packet) && packet->pool == pool) continue;
    rte_pktmbuf_free_bulk(packets.data(), count);
    return;
  }
  rte_mempool_put_bulk(pool, reinterpret_cast<void**>(packets.data()), count);
}

}  // namespace headrace::packet
