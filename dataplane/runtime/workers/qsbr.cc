// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/qsbr.h"

#include <fmt/ranges.h>

#include <chrono>
#include <thread>
#include <utility>

#include "base/log.h"

namespace headrace::runtime {
namespace {

using Clock = std::chrono::steady_clock;

/// From when on a wait is logged; then again whenever it is twice as long.
constexpr auto kLong = std::chrono::seconds(1);

}  // namespace

Qsbr::Qsbr() {
  const size_t size = rte_rcu_qsbr_get_memsize(pipeline::kMaxWorkers);
  qsbr_.reset(static_cast<rte_rcu_qsbr*>(std::aligned_alloc(RTE_CACHE_LINE_SIZE, size)));
  rte_rcu_qsbr_init(qsbr_.get(), pipeline::kMaxWorkers);
}

Qsbr::~Qsbr() {
  drain();
}

void Qsbr::go_online(unsigned worker) noexcept {
  rte_rcu_qsbr_thread_register(qsbr_.get(), worker);
  rte_rcu_qsbr_thread_online(qsbr_.get(), worker);
}

void Qsbr::go_offline(unsigned worker) noexcept {
  departures_.fetch_add(1, std::memory_order_release);
  rte_rcu_qsbr_thread_offline(qsbr_.get(), worker);
  rte_rcu_qsbr_thread_unregister(qsbr_.get(), worker);
}

void Qsbr::wait() noexcept {
  wait_for(rte_rcu_qsbr_start(qsbr_.get()));
}

bool Qsbr::has_passed(uint64_t token) noexcept {
  const std::lock_guard lock(checking_);
  const bool passed = rte_rcu_qsbr_check(qsbr_.get(), token, /*wait=*/false) == 1;
  static_cast<void>(departures_.load(std::memory_order_acquire));
  return passed;
}

void Qsbr::wait_for(uint64_t token) noexcept {
  // Not by spinning: the worker that it waits for may need this thread's CPU, which goes to this
  // one first.
  if (has_passed(token)) return;
  const Clock::time_point begin = Clock::now();
  Clock::duration waited{0};
  Clock::duration long_wait = kLong;
  do {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    waited = Clock::now() - begin;
    if (waited < long_wait) continue;
    log::warn("waiting for {} ms for worker {} to end its round: something keeps it from its CPU",
              std::chrono::duration_cast<std::chrono::milliseconds>(waited).count(),
              fmt::join(late(token), ", "));
    long_wait = 2 * waited;
  } while (!has_passed(token));
  const int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(waited).count();
  int64_t longest = longest_wait_us_.load(std::memory_order_relaxed);
  while (us > longest && !longest_wait_us_.compare_exchange_weak(longest, us)) {
  }
}

std::vector<unsigned> Qsbr::late(uint64_t token) const {
  std::vector<unsigned> numbers;
  for (unsigned worker = 0; worker < pipeline::kMaxWorkers; ++worker) {
    const uint64_t seen = __atomic_load_n(&qsbr_->qsbr_cnt[worker].cnt, __ATOMIC_RELAXED);
    if (seen != __RTE_QSBR_CNT_THR_OFFLINE && seen < token) numbers.push_back(worker);
  }
  return numbers;
}

void Qsbr::defer(std::function<void()> function) {
  deferred_.push_back({rte_rcu_qsbr_start(qsbr_.get()), std::move(function)});
  if (deferred_.size() == 1 && wake_) wake_();
}

size_t Qsbr::reclaim() {
  while (!deferred_.empty() && has_passed(deferred_.front().token)) {
    // Out of the queue first: the function may defer another.
    const std::function<void()> function = std::move(deferred_.front().function);
    deferred_.pop_front();
    function();
  }
  return deferred_.size();
}

void Qsbr::drain() {
  while (!deferred_.empty()) {
    wait_for(deferred_.front().token);
    reclaim();
  }
}

}  // namespace headrace::runtime
