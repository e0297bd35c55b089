// SPDX-License-Identifier: Apache-2.0
// One end of a ring of buffer numbers in shared memory: single producer, single consumer.
//
// Why its own: rte_ring holds pointers and its header holds sizes that a hostile peer could change.
// Here each end keeps capacity, its own position and the last seen position of the other in its own
// memory; of what the peer can write it reads only the peer's position, and checks it: a position
// that claims more than the capacity is a broken ring, and moves nothing.
//
// Speed: an end looks at the other's position only when what it knows does not suffice, so a burst
// costs one exchanged cache line of positions at most, and one for every 16 numbers.
//
// Threads: one thread an end. Slots are published by the release store of a position.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "shm/layout.h"

namespace headrace::shm {

class RingEnd {
 public:
  RingEnd() = default;
  RingEnd(void* at, uint32_t capacity)
      : header_(static_cast<RingHeader*>(at)),
        slots_(reinterpret_cast<uint32_t*>(header_ + 1)),
        mask_(capacity - 1) {}

  /// True once the peer has claimed a position that can't be.
  [[nodiscard]] bool broken() const { return broken_; }

 protected:
  RingHeader* header_{nullptr};
  uint32_t* slots_{nullptr};
  uint32_t mask_{0};
  uint32_t own_{0};   ///< this end's position
  uint32_t peer_{0};  ///< the other's, when last seen
  bool broken_{false};
};

class Producer : public RingEnd {
 public:
  using RingEnd::RingEnd;

  /// Continues at the position in the region; for a producer that trusts it (a VNF that attaches).
  void resume() {
    own_ = header_->head.load(std::memory_order_relaxed);
    peer_ = header_->tail.load(std::memory_order_acquire);
    octets_ = header_->octets.load(std::memory_order_relaxed);
    broken_ = own_ - peer_ > mask_ + 1;
  }

  /// Puts a prefix of `numbers`; its length.
  uint32_t put(std::span<const uint32_t> numbers) {
    return put(numbers, [](std::span<const uint32_t>) { return uint64_t{0}; });
  }

  /// The same, and counts in the ring's octets what `octets_of` says of that prefix.
  template <typename OctetsOf>
  uint32_t put(std::span<const uint32_t> numbers, OctetsOf&& octets_of) {
    auto count = static_cast<uint32_t>(numbers.size());
    if (broken_) return 0;
    if (mask_ + 1 - (own_ - peer_) < count) {
      const uint32_t seen = header_->tail.load(std::memory_order_acquire);
      if (own_ - seen > mask_ + 1) {
        broken_ = true;
        return 0;
      }
      peer_ = seen;
      count = std::min(count, mask_ + 1 - (own_ - peer_));
    }
    const uint32_t at = own_ & mask_;
    const uint32_t first = std::min(count, mask_ + 1 - at);
    std::memcpy(slots_ + at, numbers.data(), first * sizeof(uint32_t));
    std::memcpy(slots_, numbers.data() + first, (count - first) * sizeof(uint32_t));
    own_ += count;
    if (const uint64_t octets = octets_of(numbers.first(count)); octets != 0) {
      octets_ += octets;
      header_->octets.store(octets_, std::memory_order_relaxed);
    }
    header_->head.store(own_, std::memory_order_release);
    return count;
  }

  /// Numbers put so far, wrapping.
  [[nodiscard]] uint32_t position() const { return own_; }

 private:
  uint64_t octets_{0};
};

class Consumer : public RingEnd {
 public:
  using RingEnd::RingEnd;

  void resume() {
    own_ = header_->tail.load(std::memory_order_relaxed);
    peer_ = header_->head.load(std::memory_order_acquire);
    broken_ = peer_ - own_ > mask_ + 1;
  }

  /// Copies up to numbers.size() numbers out without ending the producer's claim to their slots;
  /// how many. release() ends it.
  uint32_t peek(std::span<uint32_t> numbers) {
    const auto room = static_cast<uint32_t>(numbers.size());
    if (broken_) return 0;
    if (peer_ - own_ < room) {
      const uint32_t seen = header_->head.load(std::memory_order_acquire);
      if (seen - own_ > mask_ + 1) {
        broken_ = true;
        return 0;
      }
      peer_ = seen;
    }
    const uint32_t count = std::min(room, peer_ - own_);
    const uint32_t at = own_ & mask_;
    const uint32_t first = std::min(count, mask_ + 1 - at);
    std::memcpy(numbers.data(), slots_ + at, first * sizeof(uint32_t));
    std::memcpy(numbers.data() + first, slots_, (count - first) * sizeof(uint32_t));
    return count;
  }

  void release(uint32_t count) {
    own_ += count;
    header_->tail.store(own_, std::memory_order_release);
  }

  /// peek() and release() in one.
  uint32_t take(std::span<uint32_t> numbers) {
    const uint32_t count = peek(numbers);
    if (count > 0) release(count);
    return count;
  }

  [[nodiscard]] uint32_t position() const { return own_; }
};

}  // namespace headrace::shm
