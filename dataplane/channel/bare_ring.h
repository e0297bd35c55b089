// SPDX-License-Identifier: Apache-2.0
// A minimal ring of numbers between two cores: the upper bound of what the machine allows.
//
// One producer, one consumer, slots of 8 octets as in a Headrace port, positions on separate cache
// lines, a cached copy of the other side's position on each side (which fast queues have and
// rte_ring has not), and the lines of the next burst prefetched once the other side has released
// them. It has no checks, owners or counters: shm/ring.h, which has them, is compared with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/prefetch.h"

namespace headrace::channel {

struct BareRing {
  static constexpr uint32_t kSlots = 1024;
  static constexpr uint32_t kSlotsOfLine = 64 / sizeof(uint64_t);
  alignas(64) std::atomic<uint32_t> head{0};
  alignas(64) std::atomic<uint32_t> tail{0};
  alignas(64) uint64_t slots[kSlots];
};

class BareProducer {
 public:
  explicit BareProducer(BareRing& ring) : ring_(ring) {}
  /// Puts all `count` numbers or none; returns how many.
  uint32_t put(const uint64_t* numbers, uint32_t count) {
    if (BareRing::kSlots - (head_ - tail_) < count) {
      tail_ = ring_.tail.load(std::memory_order_acquire);
      if (BareRing::kSlots - (head_ - tail_) < count) return 0;
    }
    const uint32_t at = head_ % BareRing::kSlots;
    const uint32_t first = count < BareRing::kSlots - at ? count : BareRing::kSlots - at;
    std::memcpy(ring_.slots + at, numbers, first * sizeof *numbers);
    std::memcpy(ring_.slots, numbers + first, (count - first) * sizeof *numbers);
    head_ += count;
    ring_.head.store(head_, std::memory_order_release);
    if (BareRing::kSlots - (head_ - tail_) >= count) {
      for (uint32_t i = 0; i < count; i += BareRing::kSlotsOfLine) {
        prefetch_to_write(&ring_.slots[(head_ + i) % BareRing::kSlots]);
      }
    }
    return count;
  }

 private:
  BareRing& ring_;
  uint32_t head_{0};
  uint32_t tail_{0};
};

class BareConsumer {
 public:
  explicit BareConsumer(BareRing& ring) : ring_(ring) {}
  /// Takes up to `room` numbers; returns how many.
  uint32_t take(uint64_t* numbers, uint32_t room) {
    if (head_ - tail_ < room) head_ = ring_.head.load(std::memory_order_acquire);
    const uint32_t count = room < head_ - tail_ ? room : head_ - tail_;
    if (count == 0) return 0;
    const uint32_t at = tail_ % BareRing::kSlots;
    const uint32_t first = count < BareRing::kSlots - at ? count : BareRing::kSlots - at;
    std::memcpy(numbers, ring_.slots + at, first * sizeof *numbers);
    std::memcpy(numbers + first, ring_.slots, (count - first) * sizeof *numbers);
    tail_ += count;
    ring_.tail.store(tail_, std::memory_order_release);
    if (head_ - tail_ >= count) {
      for (uint32_t i = 0; i < count; i += BareRing::kSlotsOfLine) {
        prefetch_to_read(&ring_.slots[(tail_ + i) % BareRing::kSlots]);
      }
    }
    return count;
  }

 private:
  BareRing& ring_;
  uint32_t head_{0};
  uint32_t tail_{0};
};

}  // namespace headrace::channel
