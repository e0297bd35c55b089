// SPDX-License-Identifier: Apache-2.0
// The memory of a stateful select group: which bucket each flow was given.
//
// A stateless group sends a flow where the hash of its headers points, so a flow moves when the
// group's buckets change. A stateful one remembers: a flow stays with its bucket while that bucket
// is there and alive, whatever happens to the others, until the flow has been quiet for the idle
// time.
//
// A set-associative table of single 64-bit words, each with a flow's fingerprint, its bucket and
// when it was last seen. All workers share it without locks: a word is read and written whole, and
// if two workers write to the same place one of the two flows is forgotten, and given a bucket
// again by the hash. Two flows with one fingerprint in one set (1 in 2^32) share a bucket, which
// does no harm. When a set is full the flow that was quiet the longest is forgotten.
//
// Thread safety: find() and remember() by any thread at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/virtual_array.h"

namespace headrace::pipeline {

class SelectMemory {
 public:
  static constexpr size_t kPlaces = size_t{1} << 18;  ///< flows remembered at once, at most
  static constexpr size_t kWays = 8;                  ///< places of a set: one cache line

  /// `idle_ticks`: ticks (of any length) after which a quiet flow is forgotten.
  explicit SelectMemory(uint32_t idle_ticks) : idle_ticks_(idle_ticks) {}

  [[nodiscard]] uint32_t idle_ticks() const { return idle_ticks_; }

  /// The bucket of the flow with this hash, and notes that it was seen; nothing if none is known.
  [[nodiscard]] std::optional<uint16_t> find(uint64_t hash, uint32_t tick) noexcept {
    std::atomic<uint64_t>* const set = set_of(hash);
    for (size_t way = 0; way < kWays; ++way) {
      const uint64_t word = set[way].load(std::memory_order_relaxed);
      if (word == 0 || fingerprint(word) != fingerprint_of(hash)) continue;
      if (age(word, tick) > idle_ticks_) return std::nullopt;
      const auto bucket = static_cast<uint16_t>(word >> 16);
      const uint64_t now = make(hash, bucket, tick);
      if (now != word) set[way].store(now, std::memory_order_relaxed);
      return bucket;
    }
    return std::nullopt;
  }

  /// The bucket of the flow with this hash, and notes nothing.
  [[nodiscard]] std::optional<uint16_t> peek(uint64_t hash, uint32_t tick) noexcept {
    std::atomic<uint64_t>* const set = set_of(hash);
    for (size_t way = 0; way < kWays; ++way) {
      const uint64_t word = set[way].load(std::memory_order_relaxed);
      if (word == 0 || fingerprint(word) != fingerprint_of(hash)) continue;
      if (age(word, tick) > idle_ticks_) break;
      return static_cast<uint16_t>(word >> 16);
    }
    return std::nullopt;
  }

  /// Gives a flow its bucket.
  void remember(uint64_t hash, uint16_t bucket, uint32_t tick) noexcept {
    std::atomic<uint64_t>* const set = set_of(hash);
    size_t chosen = 0;
    uint32_t oldest = 0;
    for (size_t way = 0; way < kWays; ++way) {
      const uint64_t word = set[way].load(std::memory_order_relaxed);
      if (word == 0 || fingerprint(word) == fingerprint_of(hash)) {
        chosen = way;
        break;
      }
      if (age(word, tick) >= oldest) {
        oldest = age(word, tick);
        chosen = way;
      }
    }
    set[chosen].store(make(hash, bucket, tick), std::memory_order_relaxed);
  }

 private:
  // fingerprint 32, bucket 16, tick 16
  static uint32_t fingerprint(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
  /// Never 0, so that no word of a flow is 0.
  static uint32_t fingerprint_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32) | 1; }
  static uint32_t age(uint64_t word, uint32_t tick) {
    return static_cast<uint16_t>(tick - static_cast<uint32_t>(word & 0xffff));
  }
  static uint64_t make(uint64_t hash, uint16_t bucket, uint32_t tick) {
    return uint64_t{fingerprint_of(hash)} << 32 | uint64_t{bucket} << 16 | (tick & 0xffff);
  }
  std::atomic<uint64_t>* set_of(uint64_t hash) {
    return &places_[(hash & (kPlaces / kWays - 1)) * kWays];
  }

  uint32_t idle_ticks_;
  VirtualArray<std::atomic<uint64_t>> places_{kPlaces};
};

}  // namespace headrace::pipeline
