// SPDX-License-Identifier: Apache-2.0
// One end of a ring in shared memory: single producer, single consumer.
//
// Why not rte_ring: it holds pointers, and its header holds sizes that a hostile peer could change.
// Here each end keeps capacity, its own position and a cached copy of the peer's position in its
// own memory. The peer may write to the shared part at any time, so its position is read once and
// bounds-checked: a position more than the capacity ahead marks the ring as broken, and no further
// packets are passed.
//
// Speed: an end reads the peer's position only when the cached copy does not suffice, so a burst
// transfers at most one cache line of positions, and those of its slots. The slots of the next
// burst are prefetched after this one: by the producer if they are known to be free, by the
// consumer if they are known to be filled. If prefetched earlier, a line would be transferred while
// the other end still writes it.
//
// Threads: one thread per end. Slots are published by the release store of a position.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/prefetch.h"
#include "shm/layout.h"

namespace headrace::shm {

template <typename Slot>
class RingEnd {
 public:
  RingEnd() = default;
  RingEnd(void* at, uint32_t capacity)
      : header_(static_cast<RingHeader*>(at)),
        slots_(reinterpret_cast<Slot*>(header_ + 1)),
        mask_(capacity - 1) {}

  /// Whether the peer's position was out of bounds at any time.
  [[nodiscard]] bool broken() const { return broken_; }
  /// Slots filled, or emptied, so far; wraps.
  [[nodiscard]] uint32_t position() const { return own_; }

 protected:
  static constexpr uint32_t kSlotsOfLine = kLine / sizeof(Slot);

  [[nodiscard]] uint32_t capacity() const { return mask_ + 1; }

  RingHeader* header_{nullptr};
  Slot* slots_{nullptr};
  uint32_t mask_{0};
  uint32_t own_{0};   ///< this end's position
  uint32_t peer_{0};  ///< the peer's position, as last read
  bool broken_{false};
};

template <typename Slot>
class Producer : public RingEnd<Slot> {
  using End = RingEnd<Slot>;
  using End::broken_, End::header_, End::mask_, End::own_, End::peer_, End::slots_;

 public:
  using End::End;

  /// Continues at the position in the region; for a producer that trusts it (a VNF that attaches).
  void resume() {
    own_ = header_->head.load(std::memory_order_relaxed);
    peer_ = header_->tail.load(std::memory_order_acquire);
    octets_ = header_->octets.load(std::memory_order_relaxed);
    broken_ = own_ - peer_ > End::capacity();
  }

  /// Puts a prefix of `items`; returns its length.
  uint32_t put(std::span<const Slot> items) {
    return put(items, [](Slot* slots, const Slot* from, uint32_t count) {
      std::memcpy(slots, from, count * sizeof(Slot));
      return uint64_t{0};
    });
  }

  /// The same with `copy(slots, items, count)`, whose results are added to the ring's octets.
  template <typename Copy>
  uint32_t put(std::span<const Slot> items, Copy&& copy) {
    auto count = static_cast<uint32_t>(items.size());
    if (broken_) return 0;
    if (free() < count) {
      const uint32_t seen = header_->tail.load(std::memory_order_acquire);
      if (own_ - seen > End::capacity()) {
        broken_ = true;
        return 0;
      }
      peer_ = seen;
      count = std::min(count, free());
    }
    const uint32_t at = own_ & mask_;
    const uint32_t first = std::min(count, End::capacity() - at);
    uint64_t octets = copy(slots_ + at, items.data(), first);
    if (first < count) octets += copy(slots_, items.data() + first, count - first);
    own_ += count;
    if (octets != 0) {
      octets_ += octets;
      header_->octets.store(octets_, std::memory_order_relaxed);
    }
    header_->head.store(own_, std::memory_order_release);
    const uint32_t next = std::min(count, free());
    for (uint32_t i = 0; i < next; i += End::kSlotsOfLine) {
      prefetch_to_write(&slots_[(own_ + i) & mask_]);
    }
    return count;
  }

 private:
  /// Slots that are known to be free.
  [[nodiscard]] uint32_t free() const { return End::capacity() - (own_ - peer_); }

  uint64_t octets_{0};
};

template <typename Slot>
class Consumer : public RingEnd<Slot> {
  using End = RingEnd<Slot>;
  using End::broken_, End::header_, End::mask_, End::own_, End::peer_, End::slots_;

 public:
  using End::End;

  void resume() {
    own_ = header_->tail.load(std::memory_order_relaxed);
    peer_ = header_->head.load(std::memory_order_acquire);
    broken_ = peer_ - own_ > End::capacity();
  }

  /// Copies up to items.size() slots without releasing them to the producer; returns how many.
  /// release() releases them.
  uint32_t peek(std::span<Slot> items) {
    return peek(items, [](Slot* to, const Slot* slots, uint32_t count) {
      std::memcpy(to, slots, count * sizeof(Slot));
    });
  }

  /// The same with `copy(items, slots, count)`; the slots are in one or two pieces.
  template <typename Copy>
  uint32_t peek(std::span<Slot> items, Copy&& copy) {
    const auto room = static_cast<uint32_t>(items.size());
    if (broken_) return 0;
    if (peer_ - own_ < room) {
      const uint32_t seen = header_->head.load(std::memory_order_acquire);
      if (seen - own_ > End::capacity()) {
        broken_ = true;
        return 0;
      }
      peer_ = seen;
    }
    const uint32_t count = std::min(room, peer_ - own_);
    const uint32_t at = own_ & mask_;
    const uint32_t first = std::min(count, End::capacity() - at);
    if (count == 0) return 0;
    copy(items.data(), slots_ + at, first);
    if (first < count) copy(items.data() + first, slots_, count - first);
    const uint32_t next = std::min(count, peer_ - own_ - count);
    for (uint32_t i = 0; i < next; i += End::kSlotsOfLine) {
      prefetch_to_read(&slots_[(own_ + count + i) & mask_]);
    }
    return count;
  }

  void release(uint32_t count) {
    own_ += count;
    header_->tail.store(own_, std::memory_order_release);
  }

  /// Says that `count` slots that were peeked at are in use, without releasing them.
  void hold(uint32_t count) { header_->held.store(own_ + count, std::memory_order_relaxed); }

  /// Of the `count` slots that were peeked at and not released, the part up to the end of the
  /// ring's memory, and the rest.
  struct Parts {
    std::span<const Slot> first;
    std::span<const Slot> second;
  };
  [[nodiscard]] Parts peeked(uint32_t count) const {
    const uint32_t at = own_ & mask_;
    const uint32_t first = std::min(count, End::capacity() - at);
    return {{slots_ + at, first}, {slots_, count - first}};
  }

  /// peek() and release() in one.
  uint32_t take(std::span<Slot> items) {
    const uint32_t count = peek(items);
    if (count > 0) release(count);
    return count;
  }
};

/// Of packets, and of empty buffers by number.
using PacketProducer = Producer<Packet>;
using PacketConsumer = Consumer<Packet>;
using NumberProducer = Producer<uint32_t>;
using NumberConsumer = Consumer<uint32_t>;

}  // namespace headrace::shm
