// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/backlog.h"

#include <algorithm>

namespace headrace::runtime {

Backlog::Slot& Backlog::slot(const rte_mempool& pool) noexcept {
  for (Slot& slot : slots_) {
    const rte_mempool* known = slot.pool.load(std::memory_order_acquire);
    if (known == nullptr &&
        slot.pool.compare_exchange_strong(known, &pool, std::memory_order_acq_rel)) {
      return slot;
    }
    if (known == &pool) return slot;
  }
  return slots_.back();
}

uint32_t Backlog::room(const rte_mempool& pool, uint32_t waiting) noexcept {
  const uint32_t half = pool.size / 2;
  const uint32_t left = half - std::min(half, queued(pool));
  return left - std::min(left, waiting);
}

}  // namespace headrace::runtime
