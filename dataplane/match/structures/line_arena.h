// SPDX-License-Identifier: Apache-2.0
// Memory for the parts of a structure that changes in place: nodes, leaves, groups of rules.
//
// Thread safety: control thread only. What was given back may be taken again at once, so it must go
// through Defer first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "match/structures/block.h"

namespace headrace::match {

/// Cache lines from chunks on huge pages.
class LineArena {
 public:
  /// Lines for so many octets; throws std::bad_alloc.
  [[nodiscard]] void* take(size_t bytes) {
    const size_t lines = lines_of(bytes);
    std::vector<void*>& free = free_[lines];
    if (!free.empty()) {
      void* const memory = free.back();
      free.pop_back();
      return memory;
    }
    if (left_ < lines) {
      // A large structure is on huge pages, a small one takes no more than it needs.
      const size_t chunk = std::max(lines * kCacheLine, std::clamp(bytes_, kSmallChunk, kHugePage));
      chunks_.emplace_back(chunk);
      bytes_ += chunks_.back().bytes();
      at_ = chunks_.back().as<uint8_t>();
      left_ = chunk / kCacheLine;
    }
    void* const memory = at_;
    at_ += lines * kCacheLine;
    left_ -= lines;
    return memory;
  }
  /// No worker may see the memory any more.
  void give_back(void* memory, size_t bytes) { free_[lines_of(bytes)].push_back(memory); }

  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kSmallChunk = size_t{256} << 10;

  static size_t lines_of(size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine; }

  std::vector<Block> chunks_;
  std::unordered_map<size_t, std::vector<void*>> free_;  ///< by lines
  uint8_t* at_{nullptr};
  size_t left_{0};
  size_t bytes_{0};
};

}  // namespace headrace::match
