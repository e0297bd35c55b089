// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/buffer_pools.h"

#include <rte_lcore.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"

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
  BufferPools pools(memory_mb, static_cast<int>(rte_socket_id()));
  if (const auto first = pools.of(Kind::ordinary, kAnyNode); !first) {
    return tl::unexpected(first.error());
  }
  return pools;
}

Result<rte_mempool*> BufferPools::for_mtu(uint32_t mtu, int node) {
  constexpr uint32_t kMost = kJumboData - kFrameOverhead;
  if (mtu < kLeastMtu || mtu > kMost) {
    return fail("MTU {}: {} to {} are possible", mtu, kLeastMtu, kMost);
  }
  return for_frame(mtu + kFrameOverhead, node);
}

Result<rte_mempool*> BufferPools::for_frame(uint32_t octets, int node) {
  if (octets > kJumboData) return fail("{} octets: at most {} are possible", octets, kJumboData);
  return of(octets <= kOrdinaryData ? Kind::ordinary : Kind::jumbo, node);
}

std::vector<rte_mempool*> BufferPools::all() const {
  std::vector<rte_mempool*> all;
  for (const Pool& pool : pools_) {
    if (pool.buffers) all.push_back(pool.buffers.get());
  }
  return all;
}

Result<rte_mempool*> BufferPools::of(Kind kind, int node) {
  const bool is_first = node < 0 || node == first_node_ || rte_socket_count() < 2;
  if (is_first) node = first_node_;
  const auto known = std::ranges::find_if(
      pools_, [&](const Pool& pool) { return pool.kind == kind && pool.node == node; });
  if (known != pools_.end()) {
    return known->buffers ? known->buffers.get() : of(kind, kAnyNode);
  }
  const bool is_jumbo = kind == Kind::jumbo;
  const uint64_t bytes = (uint64_t{memory_mb_} << 20) / (is_jumbo ? 8 : 2);
  const uint16_t data = is_jumbo ? kJumboData : kOrdinaryData;
  const std::string name = is_jumbo ? "jumbo" : "ordinary";
  Result<eal::Mempool> pool =
      eal::make_mempool({.name = is_first ? name : fmt::format("{}-{}", name, node),
                         .buffers = buffers_in(bytes, data),
                         .data_size = data,
                         .node = is_first ? kAnyNode : node});
  if (!pool && is_first) return tl::unexpected(pool.error());
  if (!pool)
    log::warn("NUMA node {}: {}; its ports use buffers of another", node, pool.error().message);
  pools_.push_back({kind, node, pool ? std::move(*pool) : nullptr});
  return pools_.back().buffers ? pools_.back().buffers.get() : of(kind, kAnyNode);
}

}  // namespace headrace::runtime
