// SPDX-License-Identifier: Apache-2.0
// Classifies the sequence numbers of one stream: in order, duplicate, or out of order.
//
// Definitions:
// * reordered (RFC 4737, Type-P-Reordered): the packet's number is smaller than the largest one
// received before it. Each such packet counts once; the early packet does not count.
// * duplicated (as in RFC 5560): its number has been received before; each further copy counts.
// * lost: sent but not received, which the caller computes. A packet that comes more than kWindow
// numbers after a later one is "ancient": neither received nor a duplicate, since the two can't be
// distinguished any more. So kWindow (at 10 Mpps, 26 ms) is the threshold that RFC 4737 and RFC
// 2680 require, beyond which a late packet is a lost one.
//
// Numbers have 32 bits on the wire and are extended here; a jump of 2^31 or more counts as a jump
// backwards.
// Thread safety: none; used by one thread.
#pragma once

#include <array>
#include <cstdint>

namespace headrace::traffic {

class SequenceTracker {
 public:
  static constexpr uint32_t kWindow = 1 << 18;
  enum class Arrival : uint8_t { in_order, reordered, duplicate, ancient };

  /// Records a packet's number.
  Arrival record(uint32_t sequence) noexcept {
    const auto ahead = static_cast<int32_t>(sequence - next_);
    if (ahead == 0) {
      set(sequence);
      ++next_;
      return Arrival::in_order;
    }
    if (ahead > 0) {
      skip_to(sequence);
      set(sequence);
      next_ = sequence + 1;
      return Arrival::in_order;
    }
    if (static_cast<uint32_t>(-static_cast<int64_t>(ahead)) > kWindow) return Arrival::ancient;
    if (is_set(sequence)) return Arrival::duplicate;
    // Before the first packet of a run the window is empty: earlier numbers were never sent.
    set(sequence);
    return Arrival::reordered;
  }

  /// Resets the window; the next run begins with 0.
  void clear() noexcept {
    next_ = 0;
    seen_.fill(0);
  }

 private:
  static constexpr uint32_t kMask = kWindow - 1;

  void set(uint32_t sequence) noexcept {
    seen_[(sequence & kMask) / 64] |= uint64_t{1} << (sequence % 64);
  }
  void unset(uint32_t sequence) noexcept {
    seen_[(sequence & kMask) / 64] &= ~(uint64_t{1} << (sequence % 64));
  }
  [[nodiscard]] bool is_set(uint32_t sequence) const noexcept {
    return ((seen_[(sequence & kMask) / 64] >> (sequence % 64)) & 1) != 0;
  }
  /// Marks next_..sequence-1 as not seen, a word at a time, since an overload may lose thousands.
  void skip_to(uint32_t sequence) noexcept {
    if (sequence - next_ >= kWindow) {
      seen_.fill(0);
      return;
    }
    while (next_ != sequence) {
      if (next_ % 64 == 0 && sequence - next_ >= 64) {
        seen_[(next_ & kMask) / 64] = 0;
        next_ += 64;
      } else {
        unset(next_++);
      }
    }
  }

  uint32_t next_{0};  ///< one past the largest number seen
  std::array<uint64_t, kWindow / 64> seen_{};
};

}  // namespace headrace::traffic
