// SPDX-License-Identifier: Apache-2.0
// Exact counters that cost a worker no lock, no atomic operation and no shared cache line.
//
// Every counted thing of an LSI (a rule, a group, a bucket, a meter, a band) has a CounterIndex.
// Each worker has its own dense array of 16-byte counters under the same indices, and is its only
// writer; so counting is a load, an add and a store to a line that no other core writes. The
// control thread reads the sum over the workers. A 64-bit load cannot tear, so each count read is
// one that was true, and the sum is exact once the packets in flight are done.
//
// An index is given away again only after a grace period, when no worker can still count under it,
// and is zeroed then. "Reset" of a living counter therefore never writes to a worker's array: its
// owner remembers the sum of that moment and subtracts it.
//
// A rule that is modified gets a new rule slot and keeps its CounterIndex, so nothing is lost or
// counted twice while workers change over.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/virtual_array.h"
#include "pipeline/program/index_pool.h"
#include "pipeline/terms/drop_reason.h"
#include "pipeline/terms/flow_types.h"
#include "pipeline/terms/limits.h"

namespace headrace::pipeline {

using CounterIndex = uint32_t;

/// One worker's share of a count. Written by that worker, read by the control thread.
struct alignas(16) Count {
  uint64_t packets;
  uint64_t bytes;
};

/// Adds to a counter of one's own. The stores are plain machine stores; volatile-free atomics tell
/// the compiler (and the sanitizers) that another thread reads. Where a 16-byte store exists both
/// halves go in one, which ThreadSanitizer would take for a race: each half is still a whole
/// aligned word, so neither can tear.
inline void add(Count& count, uint64_t packets, uint64_t bytes) {
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
  auto* both = reinterpret_cast<__m128i*>(&count);
  _mm_store_si128(
      both, _mm_add_epi64(_mm_load_si128(both), _mm_set_epi64x(static_cast<int64_t>(bytes),
                                                               static_cast<int64_t>(packets))));
#else
  std::atomic_ref<uint64_t> p(count.packets);
  std::atomic_ref<uint64_t> b(count.bytes);
  p.store(p.load(std::memory_order_relaxed) + packets, std::memory_order_relaxed);
  b.store(b.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
#endif
}

/// As add(), for a plain number.
inline void add(uint64_t& counter, uint64_t increment) {
  std::atomic_ref<uint64_t> c(counter);
  c.store(c.load(std::memory_order_relaxed) + increment, std::memory_order_relaxed);
}

inline uint64_t read(const uint64_t& counter) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(counter)).load(std::memory_order_relaxed);
}

struct TableCount {
  uint64_t lookups;
  uint64_t matched;
};

/// TSC cycles of a table, while timing is on (Executor::set_timing()).
struct TableTime {
  uint64_t packets;  ///< looked up meanwhile
  uint64_t lookup_cycles;
  uint64_t action_cycles;  ///< of the rules' actions, sending included
};

/// What a worker counts per LSI beside the indexed counters.
struct alignas(64) WorkerCounts {
  uint64_t drops[kDropReasons];
  TableCount tables[kTableCount];
  TableTime times[kTableCount];
};

/// What a worker counts per port.
struct alignas(64) PortCounts {
  uint64_t rx_packets;
  uint64_t rx_bytes;
  uint64_t tx_packets;
  uint64_t tx_bytes;
  uint64_t rx_dropped;
  uint64_t tx_dropped;
  uint64_t tx_mtu_exceeded;  ///< of tx_dropped
};

/// All counters of one LSI.
class CounterSpace {
 public:
  /// Room for `capacity` indexed counters per worker; only those used take memory.
  explicit CounterSpace(uint32_t capacity)
      : capacity_(capacity),
        indices_(0, capacity),
        counts_(size_t{capacity} * kMaxWorkers, Pages::as_used),
        last_used_(capacity, Pages::as_used),
        workers_(kMaxWorkers) {}

  /// A zeroed counter, or nothing if all are in use.
  [[nodiscard]] std::optional<CounterIndex> allocate() {
    const std::optional<CounterIndex> index = indices_.take();
    if (!index) return index;
    counts_.expect(*index);  // of each worker
    last_used_.expect(*index);
    const uint64_t seen = workers_seen_.load(std::memory_order_relaxed);
    for (unsigned worker = 0; worker < kMaxWorkers; ++worker) {
      if ((seen >> worker & 1u) != 0) counts_[size_t{worker} * capacity_ + *index] = Count{0, 0};
    }
    last_used_[*index] = 0;
    return index;
  }

  /// Gives an index back. Only after a grace period since workers could last see it.
  void release(CounterIndex index) { indices_.give(index); }

  /// Gives the memory of counters that are not in use back to the kernel.
  void trim() {
    indices_.trim([this](CounterIndex first, uint32_t count) {
      last_used_.give_back(first, count);
      const uint64_t seen = workers_seen_.load(std::memory_order_relaxed);
      for (unsigned worker = 0; worker < kMaxWorkers; ++worker) {
        if ((seen >> worker & 1u) == 0) continue;
        counts_.give_back(size_t{worker} * capacity_ + first, count);
      }
    });
  }

  /// The sum over the workers that have ever run.
  [[nodiscard]] Count sum(CounterIndex index) const {
    Count total{0, 0};
    const uint64_t seen = workers_seen_.load(std::memory_order_relaxed);
    for (unsigned worker = 0; worker < kMaxWorkers; ++worker) {
      if ((seen >> worker & 1u) == 0) continue;
      const Count& count = counts_[size_t{worker} * capacity_ + index];
      total.packets += read(count.packets);
      total.bytes += read(count.bytes);
    }
    return total;
  }

  /// Worker `worker`'s array, indexed by CounterIndex; the first call makes the worker known.
  [[nodiscard]] Count* of_worker(unsigned worker) const {
    const uint64_t bit = uint64_t{1} << worker;
    if ((workers_seen_.load(std::memory_order_relaxed) & bit) == 0) {
      workers_seen_.fetch_or(bit, std::memory_order_relaxed);
    }
    return const_cast<Count*>(counts_.data()) + size_t{worker} * capacity_;
  }

  [[nodiscard]] WorkerCounts& worker_counts(unsigned worker) const {
    return const_cast<WorkerCounts&>(workers_[worker]);
  }

  /// Worker: notes that the rule with this counter was used at `tick`. Stores once per tick, so
  /// that the line, which 16 rules share, stays with all workers.
  void note_use(CounterIndex index, uint32_t tick) const {
    const std::atomic_ref<uint32_t> last(last_used()[index]);
    if (last.load(std::memory_order_relaxed) != tick) last.store(tick, std::memory_order_relaxed);
  }

  /// When a rule with an idle timeout was last used, in units of kTickShift TSC cycles; shared by
  /// the workers, which only ever store the present.
  [[nodiscard]] uint32_t* last_used() const { return const_cast<uint32_t*>(last_used_.data()); }

 private:
  uint32_t capacity_;
  IndexPool indices_;
  mutable std::atomic<uint64_t> workers_seen_{0};
  VirtualArray<Count> counts_;
  VirtualArray<uint32_t> last_used_;
  VirtualArray<WorkerCounts> workers_;
};

/// TSC cycles per last-used tick, as a power of two: a third of a millisecond at 3 GHz; 32 bits of
/// ticks last two weeks, and differences survive the wrap.
inline constexpr unsigned kTickShift = 20;

}  // namespace headrace::pipeline
