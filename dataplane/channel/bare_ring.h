// SPDX-License-Identifier: Apache-2.0
// A ring of numbers between two cores and nothing more: what the machine itself allows.
//
// One producer, one consumer, slots of 8 octets as a Headrace port's, positions on lines of their
// own, each side with a copy of the other's position (as rte_ring has it not, and as all fast
// queues do), and the lines of the next burst prefetched, when they are known to be the other's no
// more. It trusts its peer, marks no owner and counts nothing: shm/ring.h with its checks, owners
// and counters is compared with it.
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
  /// All `count` numbers or none; how many.
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
  /// Up to `room` numbers; how many.
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
