// SPDX-License-Identifier: Apache-2.0
// Which receive queues a worker polls in a round: all that bring something, and some of the idle.
//
// Why. A host has hundreds of guests, most of which send nothing. A poll that finds nothing costs 6
// cycles (no guest) to 60 (a guest that is silent), so with a thousand ports a round is mostly
// that, and every packet pays for it.
//
// How. A queue that brought nothing in kIdleAfter polls is idle until it brings something. The idle
// ones are polled in turn, in each round
//
// * as many as that each is polled every kInterval (a round that lasts longer polls all of them),
// * and if the others brought nothing, at least kAtLeast of them: a worker without anything else to
//   do might as well look. One that has packets pays for a look with their time.
//
// So the first packet of a queue that was idle waits for at most two intervals and a round longer
// (two, since the order of idle queues changes when one of them is idle no more); those behind it
// wait for nothing.
//
// Thread safety: none; the worker's own. Nothing is allocated after the constructor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace headrace::runtime {

class PollOrder {
 public:
  static constexpr uint32_t kIdleAfter = 256;
  static constexpr uint32_t kAtLeast = 16;
  static constexpr uint32_t kIntervalUs = 50;

  /// Of queues 0 to `queues` - 1, none of which is idle yet; `hz`: of the clock of run().
  PollOrder(uint32_t queues, uint64_t hz)
      : order_(queues), busy_(queues), interval_(hz / 1'000'000 * kIntervalUs) {
    for (uint32_t i = 0; i < queues; ++i) order_[i].number = i;
  }

  /// One round, which begins at `now`. `poll(queue)` is true if that brought something.
  template <typename Poll>
  void run(uint64_t now, Poll&& poll) noexcept {
    bool received = false;
    for (uint32_t i = 0; i < busy_;) {
      Queue& queue = order_[i];
      if (poll(queue.number)) {
        received = true;
        queue.empty_polls = 0;
      } else if (++queue.empty_polls == kIdleAfter) {
        queue.empty_polls = 0;
        std::swap(queue, order_[--busy_]);
        continue;  // with the one that is here now
      }
      ++i;
    }
    const uint64_t elapsed = std::min(now - last_round_, interval_);
    last_round_ = now;
    const auto all = static_cast<uint32_t>(order_.size());
    if (busy_ == all) return;
    const uint32_t idle = all - busy_;
    auto due = static_cast<uint32_t>(idle * elapsed / interval_ + 1);
    if (!received) due = std::max(due, kAtLeast);
    due = std::min(due, idle);
    for (; due > 0 && busy_ < all; --due) {
      if (next_idle_ < busy_ || next_idle_ >= all) next_idle_ = busy_;
      if (poll(order_[next_idle_].number)) std::swap(order_[next_idle_], order_[busy_++]);
      ++next_idle_;
    }
  }

  [[nodiscard]] uint32_t idle() const { return static_cast<uint32_t>(order_.size()) - busy_; }

 private:
  struct Queue {
    uint32_t number;
    uint32_t empty_polls;
  };

  std::vector<Queue> order_;  ///< those that are polled in every round come first
  uint32_t busy_;
  uint32_t next_idle_{0};
  uint64_t interval_;
  uint64_t last_round_{0};
};

}  // namespace headrace::runtime
