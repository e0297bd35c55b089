// SPDX-License-Identifier: Apache-2.0
// A counter with one writer and any number of readers: the worker counts, the control thread reads
// while it runs. Relaxed atomics cost the writer what a plain integer does.
#pragma once

#include <atomic>
#include <cstdint>

namespace headrace::traffic {

class Counter {
 public:
  /// Writer only.
  void add(uint64_t amount) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  /// Writer only.
  void set(uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace headrace::traffic
