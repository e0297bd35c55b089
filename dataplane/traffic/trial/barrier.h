// SPDX-License-Identifier: Apache-2.0
// A spinning barrier: all workers of a trial begin at one time. A futex would wake them
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
  /// Of `parties` threads, at least one.
  explicit Barrier(unsigned parties) : parties_(parties) {}

  /// Waits until all have arrived. The last to arrive runs `act` before any of them continues; what
  /// it writes, all see. With `yield` the core is offered to others meanwhile.
  template <typename Act>
  void wait(bool yield, Act&& act) noexcept {
    const uint64_t round = round_.load(std::memory_order_acquire);
    if (here_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties_) {
      here_.store(0, std::memory_order_relaxed);
      std::forward<Act>(act)();
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
  std::atomic<unsigned> here_{0};
  std::atomic<uint64_t> round_{0};
};

}  // namespace headrace::traffic
