// SPDX-License-Identifier: Apache-2.0
// The anti-replay window of an ESP receiver: RFC 4303, 3.4.3, as a ring of bits (RFC 6479), with
// extended sequence numbers (RFC 4303, appendix A).
//
// A packet's number is checked before authentication (may_be_new) and recorded only after it
// (take), so that a forged packet can't advance the window.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace headrace::vnf {

class ReplayWindow {
 public:
  /// `size` in packets; 0 accepts every number.
  ReplayWindow(uint32_t size, bool extended)
      : size_(size),
        extended_(extended),
        words_(size == 0 ? 1 : std::bit_ceil(uint64_t{size} / 64 + 2)) {}

  /// The full sequence number of a packet that carries its low 32 bits; without extended numbers,
  /// these.
  [[nodiscard]] uint64_t whole(uint32_t low) const noexcept {
    if (!extended_) return low;
    // Appendix A2.2: the half in which the number is nearest to the window.
    const auto top_low = static_cast<uint32_t>(top_);
    const uint64_t high = top_ >> 32;
    const bool window_in_one_half = top_low >= size_;
    if (window_in_one_half) return (low >= top_low - size_ ? high : high + 1) << 32 | low;
    const bool before = low >= top_low - size_;  // wraps, as the window does
    return (before && high > 0 ? high - 1 : high) << 32 | low;
  }

  /// Whether a full number may be a new packet's.
  [[nodiscard]] bool may_be_new(uint64_t number) const noexcept {
    if (size_ == 0 || number > top_) return size_ == 0 || number != 0;
    if (number == 0 || top_ - number >= size_) return false;
    return (word(number) & bit(number)) == 0;
  }

  /// Records an authenticated packet's number; false if it is not new.
  bool take(uint64_t number) noexcept {
    if (!may_be_new(number)) return false;
    if (size_ == 0) {
      if (number > top_) top_ = number;
      return true;
    }
    if (number > top_) {
      const uint64_t ahead = number / 64 - top_ / 64;
      const uint64_t cleared = ahead < words_.size() ? ahead : words_.size();
      for (uint64_t i = 1; i <= cleared; ++i) word(number - (i - 1) * 64) = 0;
      top_ = number;
    }
    word(number) |= bit(number);
    return true;
  }

 private:
  [[nodiscard]] uint64_t& word(uint64_t number) noexcept {
    return words_[number / 64 & (words_.size() - 1)];
  }
  [[nodiscard]] const uint64_t& word(uint64_t number) const noexcept {
    return words_[number / 64 & (words_.size() - 1)];
  }
  static uint64_t bit(uint64_t number) noexcept { return uint64_t{1} << (number & 63); }

  uint32_t size_;
  bool extended_;
  uint64_t top_{0};  ///< the highest number taken
  std::vector<uint64_t> words_;
};

}  // namespace headrace::vnf
