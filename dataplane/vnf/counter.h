// SPDX-License-Identifier: Apache-2.0
// A counter with one writer (the polling thread) and any number of readers.
#pragma once

#include <atomic>
#include <cstdint>

namespace headrace::vnf {

/// Exact, and as cheap as a plain integer: no read-modify-write instruction is locked.
class Counter {
 public:
  void add(uint64_t n) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  [[nodiscard]] uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace headrace::vnf
