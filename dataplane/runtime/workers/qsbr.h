// SPDX-License-Identifier: Apache-2.0
// Grace periods over DPDK's QSBR (rte_rcu_qsbr): the Reclaimer of a switch with workers.
//
// A worker is a reader from go_online() to go_offline(), and reports quiescent() once per poll
// round, when it holds no reference to any program: one store, without a barrier. A worker that
// sleeps goes offline, so that it delays no grace period. defer() takes a token; its function runs
// in the first reclaim() or drain() that finds every online worker past that token.
//
// A wait lasts as long as the longest round, so at most a millisecond or so where workers have
// their CPUs. A worker that is kept from its CPU keeps the waiting thread, too: from a second on
// that is logged with the worker's number, as OVS does, and longest_wait() keeps the maximum.
//
// Thread safety: go_online(), quiescent() and go_offline() by the worker of that number; wait() and
// longest_wait() by any thread that is no worker; all else by the control thread. Deferred
// functions may defer others.
#pragma once

#include <rte_rcu_qsbr.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "pipeline/terms/limits.h"
#include "pipeline/terms/reclaimer.h"

namespace headrace::runtime {

class Qsbr final : public pipeline::Reclaimer {
 public:
  Qsbr();
  /// No worker may be online. What is still deferred runs now.
  ~Qsbr() override;
  Qsbr(const Qsbr&) = delete;
  Qsbr& operator=(const Qsbr&) = delete;

  // --- workers, numbered 0..kMaxWorkers-1 ---

  void go_online(unsigned worker) noexcept;
  void quiescent(unsigned worker) noexcept { rte_rcu_qsbr_quiescent(qsbr_.get(), worker); }
  void go_offline(unsigned worker) noexcept;

  /// Returns when every worker that is online has passed a quiescent state after the call. For any
  /// thread but a worker's.
  void wait() noexcept;
  /// The longest that wait() or drain() waited for one grace period.
  [[nodiscard]] std::chrono::microseconds longest_wait() const {
    return std::chrono::microseconds(longest_wait_us_.load(std::memory_order_relaxed));
  }

  // --- control ---

  void defer(std::function<void()> function) override;
  /// Runs what is due, without waiting; how many are left.
  size_t reclaim();
  /// Waits for all workers and runs everything. Takes as long as the longest poll round.
  void drain();
  [[nodiscard]] size_t pending() const { return deferred_.size(); }
  /// `wake` is called when something becomes pending, so that a timer can be started.
  void on_pending(std::function<void()> wake) { wake_ = std::move(wake); }

 private:
  struct Deferred {
    uint64_t token;
    std::function<void()> function;
  };
  struct Free {
    void operator()(rte_rcu_qsbr* qsbr) const { std::free(qsbr); }
  };

  /// Whether every worker that is online has passed a quiescent state since `token` was taken.
  /// One thread at a time: DPDK notes, without any order, the token that all have passed, so a
  /// second thread could act on that note before it sees what the workers did until then.
  bool has_passed(uint64_t token) noexcept;
  void wait_for(uint64_t token) noexcept;
  /// Numbers of the workers that are online and have passed no quiescent state since.
  [[nodiscard]] std::vector<unsigned> late(uint64_t token) const;

  std::mutex checking_;
  /// How often workers have gone offline. What orders their last reads before a function that
  /// waited for them is in librte_rcu, where ThreadSanitizer does not see it; this says the same.
  std::atomic<uint64_t> departures_{0};
  std::atomic<int64_t> longest_wait_us_{0};
  std::unique_ptr<rte_rcu_qsbr, Free> qsbr_;
  std::deque<Deferred> deferred_;
  std::function<void()> wake_;
};

}  // namespace headrace::runtime
