// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/qsbr.h"

#include <chrono>
#include <thread>
#include <utility>

namespace headrace::runtime {

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
  rte_rcu_qsbr_thread_offline(qsbr_.get(), worker);
  rte_rcu_qsbr_thread_unregister(qsbr_.get(), worker);
}

void Qsbr::wait() noexcept {
  wait_for(rte_rcu_qsbr_start(qsbr_.get()));
}

bool Qsbr::has_passed(uint64_t token) noexcept {
  const std::lock_guard lock(checking_);
  return rte_rcu_qsbr_check(qsbr_.get(), token, /*wait=*/false) == 1;
}

void Qsbr::wait_for(uint64_t token) noexcept {
  // Not by spinning: the worker that it waits for may need this thread's CPU, which goes to this
  // one first.
  while (!has_passed(token)) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
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
