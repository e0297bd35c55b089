// SPDX-License-Identifier: Apache-2.0
// Which of many idle taps have something: one system call for all of them.
//
// A tap has no memory that could be looked at: to ask it is a read(), which costs a fifth of a
// microsecond even if there is nothing. So an idle tap is not asked. All taps of the process are in
// one epoll set, edge triggered; a worker that comes by an idle tap asks the set, if nobody did for
// kInterval, and the set names those that something has come to. A tap that has been named is read
// until it is empty, and then idle again. An event that comes meanwhile stays in the set.
//
// So a packet waits kInterval at most while its tap is idle, and all taps together cost one system
// call per kInterval.
//
// Thread safety: add() and remove() by the control thread; the rest by any worker.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "port/kernel/interface.h"

namespace headrace::port {

/// Of one file descriptor: how often the set has named it.
struct ReadyState {
  std::atomic<uint32_t> events{0};
};

class Readiness {
 public:
  /// The one of this process, made when it is first needed.
  static Result<std::shared_ptr<Readiness>> shared();

  /// `state` must live until every worker has completed a round after remove().
  [[nodiscard]] Result<> add(int fd, ReadyState& state);
  void remove(int fd);

  /// Asks the kernel, if kInterval is over at `now` (TSC).
  void ask(uint64_t now) noexcept {
    uint64_t due = due_.load(std::memory_order_relaxed);
    if (now < due || !due_.compare_exchange_strong(due, now + interval_)) return;
    take_events();
  }

 private:
  explicit Readiness(Descriptor set);
  void take_events() noexcept;

  Descriptor set_;
  uint64_t interval_;
  std::atomic<uint64_t> due_{0};
};

}  // namespace headrace::port
