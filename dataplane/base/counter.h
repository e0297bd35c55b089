// SPDX-License-Identifier: Apache-2.0
// A 64-bit statistics counter with one writing thread and any number of reading threads.
//
// The writer loads, adds and stores with relaxed atomics: on x86-64 and Arm64 these are plain
// instructions, so counting costs what it costs on an ordinary integer. A locked read-modify-write
// is not needed because nothing else writes. A reader sees a value that the counter had; counters
// that are read one after the other need not be of the same instant.
#pragma once

#include <atomic>
#include <cstdint>

namespace headrace {

class Counter {
 public:
  /// Writing thread only.
  void add(uint64_t amount) noexcept { set(read() + amount); }
  /// Writing thread only, or before that thread starts.
  void set(uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  /// Any thread.
  [[nodiscard]] uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace headrace
