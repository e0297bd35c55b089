// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/buffer_pools.h"

#include <rte_mbuf.h>

#include <algorithm>

namespace headrace::runtime {

namespace {

constexpr uint16_t kOrdinaryData = 2048;
constexpr uint16_t kJumboData = BufferPools::kLargestFrame;
constexpr uint32_t kFrameOverhead = 22;  ///< Ethernet header and two VLAN tags
constexpr uint32_t kLeastMtu = 68;       ///< IPv4's (RFC 791, section 3.2)
constexpr uint32_t kMaxBuffers = (1u << 20) - 1;

/// Buffers of `data` bytes that fit `bytes`.
uint32_t buffers_in(uint64_t bytes, uint16_t data) {
  const uint64_t each = data + RTE_PKTMBUF_HEADROOM + sizeof(rte_mbuf) + RTE_CACHE_LINE_SIZE;
  return static_cast<uint32_t>(std::min<uint64_t>(bytes / each, kMaxBuffers));
}

}  // namespace

Result<BufferPools> BufferPools::make(uint32_t memory_mb) {
  const uint64_t bytes = (uint64_t{memory_mb} << 20) / 2;
  Result<eal::Mempool> pool = eal::make_mempool({.name = "ordinary",
                                                 .buffers = buffers_in(bytes, kOrdinaryData),
                                                 .data_size = kOrdinaryData});
  if (!pool) return tl::unexpected(pool.error());
  return BufferPools(std::move(*pool), memory_mb);
}

Result<rte_mempool*> BufferPools::for_mtu(uint32_t mtu) {
  constexpr uint32_t kMost = kJumboData - kFrameOverhead;
  if (mtu < kLeastMtu || mtu > kMost) {
    return fail("MTU {}: {} to {} are possible", mtu, kLeastMtu, kMost);
  }
  return for_frame(mtu + kFrameOverhead);
}

Result<rte_mempool*> BufferPools::for_frame(uint32_t octets) {
  if (octets <= kOrdinaryData) return ordinary_.get();
  if (octets > kJumboData) return fail("{} octets: at most {} are possible", octets, kJumboData);
  if (!jumbo_) {
    const uint64_t bytes = (uint64_t{memory_mb_} << 20) / 8;
    Result<eal::Mempool> pool = eal::make_mempool(
        {.name = "jumbo", .buffers = buffers_in(bytes, kJumboData), .data_size = kJumboData});
    if (!pool) return tl::unexpected(pool.error());
    jumbo_ = std::move(*pool);
  }
  return jumbo_.get();
}

}  // namespace headrace::runtime
