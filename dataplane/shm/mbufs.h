// SPDX-License-Identifier: Apache-2.0
// An mbuf for each buffer of a region: makes shared packets usable by DPDK code.
//
// Each buffer has a permanent mbuf in the process's own memory, whose data are the buffer's octets
// (an external-buffer pool). So a packet is processed, cloned and freed like any other, and no peer
// can write to an mbuf. An mbuf and its buffer's number map to each other.
//
// The switch's pool (port/shm_packets.h) holds the mbufs of free buffers. A VNF's
// (vnf/shm_memory.h) holds those that the VNF's function has freed and that are to be returned to
// the switch.
#pragma once

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace headrace::shm {

/// The buffers of a region, from the process's own memory (or the region's header).
struct BufferArea {
  uint8_t* first_octets{nullptr};  ///< of buffer 0
  uint32_t stride{0};              ///< octets of a buffer
  uint32_t count{0};
};

class MbufSet {
 public:
  /// Initially all mbufs are in the pool. `cache`: mbufs that a thread may cache. Fails if memory
  /// is short.
  static Result<MbufSet> make(const std::string& name, const BufferArea& area, uint32_t cache);
  MbufSet() = default;
  ~MbufSet() { rte_mempool_free(pool_); }
  MbufSet(MbufSet&& other) noexcept { *this = std::move(other); }
  MbufSet& operator=(MbufSet&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(mbufs_, other.mbufs_);
    return *this;
  }
  MbufSet(const MbufSet&) = delete;
  MbufSet& operator=(const MbufSet&) = delete;

  [[nodiscard]] rte_mempool* pool() const { return pool_; }
  [[nodiscard]] rte_mbuf* mbuf(uint32_t buffer) const { return mbufs_[buffer]; }
  /// The buffer of an mbuf whose pool is pool().
  [[nodiscard]] static uint32_t buffer_of(rte_mbuf* packet) {
    return *reinterpret_cast<uint32_t*>(packet + 1);
  }
  /// Whether the packet can be passed on by its number: it is one of ours, in one segment and not
  /// shared.
  [[nodiscard]] bool can_pass(rte_mbuf* packet) const {
    return packet->pool == pool_ && packet->nb_segs == 1 && rte_mbuf_refcnt_read(packet) == 1 &&
           !RTE_MBUF_CLONED(packet);
  }

 private:
  rte_mempool* pool_{nullptr};
  std::vector<rte_mbuf*> mbufs_;
};

}  // namespace headrace::shm
