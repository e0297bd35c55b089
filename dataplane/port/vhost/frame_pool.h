// SPDX-License-Identifier: Apache-2.0
// The pool that librte_vhost takes buffers from: another pool's, but only so many for each burst.
//
// A guest says itself how long a frame of its is, by descriptors that add up to as much as it has
// memory, and librte_vhost copies all of it before anybody can look: a frame of 1 GiB would take
// every buffer of the pool that all ports share, and the worker for as long as that takes. So the
// library is given a pool without buffers of its own, whose operations take them from the real one
// until the burst has what 32 segments of 64 KiB need. A buffer belongs to the real pool, and goes
// back there.
//
// Thread safety: made and destroyed by the control thread. Buffers are taken by any thread, each
// with an allowance of its own.
#pragma once

#include <rte_mempool.h>

#include <memory>

#include "base/result.h"

namespace headrace::port::vhost {

class FramePool {
 public:
  /// One for all ports with the same `buffers`, which outlives it.
  static Result<std::shared_ptr<FramePool>> of(rte_mempool* buffers);
  ~FramePool();
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  /// For one burst of the calling thread.
  [[nodiscard]] rte_mempool* for_burst() noexcept;

 private:
  FramePool(rte_mempool* pool, uint32_t allowance) : pool_(pool), allowance_(allowance) {}

  rte_mempool* pool_;
  uint32_t allowance_;
};

}  // namespace headrace::port::vhost
