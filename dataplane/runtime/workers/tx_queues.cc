// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/tx_queues.h"

#include <rte_pause.h>

#include <algorithm>

namespace headrace::runtime {
namespace {

/// Holds a lock of one bit for as long as it lives. Waiting threads read, so that the line stays
/// with the holder until it is free.
class Held {
 public:
  explicit Held(std::atomic<bool>& lock) noexcept : lock_(lock) {
    while (lock_.exchange(true, std::memory_order_acquire)) {
      while (lock_.load(std::memory_order_relaxed)) rte_pause();
    }
  }
  ~Held() { lock_.store(false, std::memory_order_release); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  std::atomic<bool>& lock_;
};

}  // namespace

TxQueues::TxQueues(pipeline::PortIo& device, uint16_t queues)
    : device_(device), queues_(queues), states_(std::make_unique<State[]>(queues)) {}

uint16_t TxQueues::tx(uint16_t worker, std::span<rte_mbuf*> packets) noexcept {
  // A division for each burst is what workers without a queue of their own pay, nobody else.
  const auto queue = worker < queues_ ? worker : static_cast<uint16_t>(worker % queues_);
  State& state = states_[queue];
  if (!state.shared.load(std::memory_order_acquire)) return device_.tx(queue, packets);
  const Held held(state.locked);
  return device_.tx(queue, packets);
}

bool TxQueues::set_workers(std::span<const unsigned> numbers) {
  bool locked = false;
  for (uint16_t queue = 0; queue < queues_; ++queue) {
    const bool shared = std::ranges::count_if(numbers, [&](unsigned number) {
                          return number % queues_ == queue;
                        }) > 1;
    locked |= shared && !states_[queue].shared.load(std::memory_order_relaxed);
    states_[queue].shared.store(shared, std::memory_order_release);
  }
  return locked;
}

}  // namespace headrace::runtime
