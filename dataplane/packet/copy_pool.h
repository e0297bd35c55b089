// SPDX-License-Identifier: Apache-2.0
// Which pool the copy of a packet comes from.
//
// A copy is another packet that leaves the switch, so it may not lie where somebody else can write.
// That is so for a pool of external memory: the buffers of a region that VNFs share
// (port/shm_packets.h). Copies of its packets come from the switch's own buffers.
//
// Thread safety: set once, before any worker runs.
#pragma once

#include <rte_mbuf.h>

namespace headrace::packet {

/// Sets the pool of copies of packets in external memory; it outlives all of them.
void set_pool_of_copies(rte_mempool* own) noexcept;

/// The switch's own pool; null before it is set.
[[nodiscard]] rte_mempool* pool_of_copies() noexcept;

/// The packet's pool, or the switch's own if the packet's buffers are external.
[[nodiscard]] inline rte_mempool* pool_for_copy(const rte_mbuf* packet) noexcept {
  return RTE_MBUF_HAS_EXTBUF(packet) ? pool_of_copies() : packet->pool;
}

/// A copy of the packet, whole or its first `octets`; null if there is no buffer.
[[nodiscard]] inline rte_mbuf* copy_of(const rte_mbuf* packet,
                                       uint32_t octets = UINT32_MAX) noexcept {
  rte_mempool* const pool = pool_for_copy(packet);
  return pool == nullptr ? nullptr : rte_pktmbuf_copy(packet, pool, 0, octets);
}

}  // namespace headrace::packet
