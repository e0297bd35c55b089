// SPDX-License-Identifier: Apache-2.0
// A spinning barrier: all workers of a trial start at the same time. A futex would wake them
// microseconds apart, and in a random order.
#pragma once

#include <rte_pause.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <utility>

namespace headrace::traffic {

class Barrier {
 public:
  /// For `parties` threads, at least one.
  explicit Barrier(unsigned parties) : parties_(parties) {}

  /// Waits until all threads have arrived. The last one runs `action` before any of them continues;
  /// all see what it wrote. With `yield` the thread yields its core while it waits.
  template <typename Action>
  void wait(bool yield, Action&& action) noexcept {
    const uint64_t round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties_) {
      arrived_.store(0, std::memory_order_relaxed);
      std::forward<Action>(action)();
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    while (round_.load(std::memory_order_acquire) == round) {
      if (yield) {
        sched_yield();
      } else {
        rte_pause();
      }
    }
  }

 private:
  const unsigned parties_;
  std::atomic<unsigned> arrived_{0};
  std::atomic<uint64_t> round_{0};
};

}  // namespace headrace::traffic
