// SPDX-License-Identifier: Apache-2.0
// When each packet of a stream is meant to leave: at an exact, constant rate, with decimals.
//
// The n-th packet's time is begin + n * interval in 64.64 fixed-point TSC cycles, so the rate is
// right to 2^-61 and does not drift. The pacer reads no clock: the caller passes the time,
// which is how tests simulate it.
//
// Packets may be meant in bursts: then `burst` of them share a time and the bursts are that many
// intervals apart, so the mean rate stays.
//
// Or each packet has a time of its own: a capture's, replayed.
//
// A schedule does not wait. When the generator or the device falls behind, packets become due and
// are sent late; their latency still counts from the time meant (so a stall shows in all the
// latencies that it caused: no coordinated omission). Those that are later than a bound are given
// up by skip_before() and count as unsent.
//
// Thread safety: none; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace headrace::traffic {

class Pacer {
 public:
  /// Packets at `pps` from `begin` until before `end` (TSC), the first at `begin` + `phase` of an
  /// interval (0 <= phase < 1), `burst` (at least 1) at a time. `pps` <= 0: none.
  void start(uint64_t begin, uint64_t end, double pps, double tsc_hz, double phase,
             uint32_t burst = 1) noexcept {
    end_ = end;
    burst_ = burst;
    left_ = burst;
    if (!(pps > 0)) {
      next_ = static_cast<Fixed>(end) << 64;
      interval_ = 1;
      return;
    }
    interval_ = static_cast<Fixed>(static_cast<long double>(tsc_hz) / pps * burst * 0x1p64L);
    // Rounded up by more than the division's own error: a packet meant for `end` exactly is none.
    interval_ += (interval_ >> 62) + 1;
    next_ =
        (static_cast<Fixed>(begin) << 64) +
        static_cast<Fixed>(static_cast<long double>(phase) * static_cast<long double>(interval_));
  }

  /// Packets at `begin` + each of `offsets` (cycles, ascending, not empty), and again each `period`
  /// after, until before `end`. The offsets must outlive the schedule.
  void start(uint64_t begin, uint64_t end, std::span<const uint64_t> offsets,
             uint64_t period) noexcept {
    end_ = end;
    turn_begin_ = begin;
    offsets_ = offsets;
    period_ = period;
    index_ = 0;
    next_ = static_cast<Fixed>(begin + offsets.front()) << 64;
  }

  /// The time meant for the next packet.
  [[nodiscard]] uint64_t next() const noexcept { return static_cast<uint64_t>(next_ >> 64); }
  /// No packet is left.
  [[nodiscard]] bool done() const noexcept { return next() >= end_; }
  /// The next packet exists and its time has come.
  [[nodiscard]] bool due(uint64_t now) const noexcept { return next() <= now && !done(); }
  /// Cuts the schedule off: packets meant for `now` or later are none of it any more.
  void stop(uint64_t now) noexcept {
    if (now < end_) end_ = now;
  }
  /// Goes on to the packet after it.
  void advance() noexcept {
    if (!offsets_.empty()) return advance_offset();
    if (--left_ != 0) return;
    left_ = burst_;
    next_ += interval_;
  }

  /// Gives up all packets meant for before `time`; returns how many that were.
  uint64_t skip_before(uint64_t time) noexcept {
    if (time > end_) time = end_;
    if (next() >= time) return 0;
    if (!offsets_.empty()) {
      uint64_t count = 0;
      for (; next() < time; ++count) advance_offset();
      return count;
    }
    const Fixed missing = (static_cast<Fixed>(time) << 64) - next_;
    const auto bursts = static_cast<uint64_t>((missing + interval_ - 1) / interval_);
    const uint64_t count = left_ + (bursts - 1) * burst_;
    next_ += interval_ * bursts;
    left_ = burst_;
    return count;
  }

 private:
  using Fixed = unsigned __int128;

  void advance_offset() noexcept {
    if (++index_ == offsets_.size()) {
      index_ = 0;
      turn_begin_ += period_;
    }
    next_ = static_cast<Fixed>(turn_begin_ + offsets_[index_]) << 64;
  }

  Fixed next_{0};
  Fixed interval_{1};  ///< from one burst to the next
  uint32_t burst_{1};
  uint32_t left_{1};  ///< of the burst whose time next_ is
  uint64_t end_{0};
  std::span<const uint64_t> offsets_;  ///< of a replay; empty: a rate
  size_t index_{0};
  uint64_t turn_begin_{0};
  uint64_t period_{0};
};

}  // namespace headrace::traffic
