// SPDX-License-Identifier: Apache-2.0
// Numbers of the elements of an array, given out and taken back.
//
// The memory behind numbers that are free goes back to the kernel in whole pages, when very many
// have become free (trim()); and low numbers are given out first, so that what is in use stays
// together.
//
// Thread safety: control thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace headrace::pipeline {

class IndexPool {
 public:
  /// Numbers from `first` to `capacity` - 1.
  IndexPool(uint32_t first, uint32_t capacity) : used_(first), capacity_(capacity) {}

  /// A number that is not in use, or nothing.
  [[nodiscard]] std::optional<uint32_t> take() {
    if (!free_.empty()) {
      const uint32_t index = free_.back();
      free_.pop_back();
      return index;
    }
    if (used_ == capacity_) return std::nullopt;
    return used_++;
  }
  void give(uint32_t index) { free_.push_back(index); }

  /// All numbers that are in use are less.
  [[nodiscard]] uint32_t limit() const { return used_; }

  /// Calls `unused(first, count)` for each run of numbers that are free, longest possible, and
  /// forgets those at the end. Takes a time in proportion to limit().
  template <typename Unused>
  void trim(Unused&& unused) {
    std::vector<bool> is_free(used_);
    for (const uint32_t index : free_) is_free[index] = true;
    std::vector<uint32_t>().swap(free_);
    uint32_t end = used_;  // of the run that begins at, or below, `index`
    bool at_the_end = true;
    for (uint32_t index = used_; index > 0; --index) {
      if (is_free[index - 1]) continue;
      if (index < end) unused(index, end - index);
      if (at_the_end) used_ = index;
      at_the_end = false;
      end = index - 1;
    }
    if (end > 0) unused(0, end);
    if (at_the_end) used_ = 0;
    // The lowest are taken first.
    for (uint32_t index = used_; index > 0; --index) {
      if (is_free[index - 1]) free_.push_back(index - 1);
    }
  }

 private:
  uint32_t used_;
  uint32_t capacity_;
  std::vector<uint32_t> free_;
};

}  // namespace headrace::pipeline
