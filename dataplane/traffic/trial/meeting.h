// SPDX-License-Identifier: Apache-2.0
// Where the workers of a trial wait for each other, so that all of them begin at one time.
//
// They spin: a futex would wake them microseconds apart, and in a random order.
#pragma once

#include <rte_pause.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <utility>

namespace headrace::traffic {

class Meeting {
 public:
  /// Of `parties` threads, at least one.
  explicit Meeting(unsigned parties) : parties_(parties) {}

  /// Waits until all are here. The last to come does `act` before any of them goes on; what it
  /// writes, all see. With `yield` the core is offered to others meanwhile.
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
