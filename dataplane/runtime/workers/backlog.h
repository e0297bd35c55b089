// SPDX-License-Identifier: Apache-2.0
// How many buffers of each pool wait in ports' queues (port_queues.h), and how many more may.
//
// The queues of all ports hold buffers of the same pools, which receive queues need, too. A fixed
// number per queue would let some slow ports with many queues take all. So the threshold is
// dynamic: a port may have as many buffers of a pool waiting as are left of half of that pool. One
// port thus gets a quarter of the pool at most, two a sixth each, n ports 1/(2(n+1)) each; however
// many there are, half of the pool is never queued, and a port that has nothing queued finds room.
//
// Source: Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches",
// IEEE/ACM Transactions on Networking 6(2), 1998, with alpha = 1.
//
// Thread safety: all methods by any thread. Workers that add at once may together exceed a
// threshold by a burst each.
#pragma once

#include <rte_common.h>
#include <rte_mempool.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace headrace::runtime {

class Backlog {
 public:
  /// How many buffers of `pool` a port that has `waiting` buffers queued may add.
  [[nodiscard]] uint32_t room(const rte_mempool& pool, uint32_t waiting) noexcept;
  void add(const rte_mempool& pool, uint32_t count) noexcept {
    slot(pool).queued.fetch_add(count, std::memory_order_relaxed);
  }
  void remove(const rte_mempool& pool, uint32_t count) noexcept {
    slot(pool).queued.fetch_sub(count, std::memory_order_relaxed);
  }
  [[nodiscard]] uint32_t queued(const rte_mempool& pool) noexcept {
    return slot(pool).queued.load(std::memory_order_relaxed);
  }

 private:
  /// Pools that are told apart; more than that share the last slot, and the threshold.
  static constexpr size_t kPools = 64;
  struct alignas(RTE_CACHE_LINE_SIZE) Slot {
    std::atomic<const rte_mempool*> pool{nullptr};
    std::atomic<uint32_t> queued{0};
  };
  Slot& slot(const rte_mempool& pool) noexcept;

  std::array<Slot, kPools> slots_;
};

}  // namespace headrace::runtime
