// SPDX-License-Identifier: Apache-2.0
// The intended send time of each packet of a stream: an exact, constant rate, fractional rates
// included.
//
// The n-th packet's time is begin + n * interval in 64.64 fixed-point TSC cycles, so the rate is
// exact to 2^-61 and does not drift. The pacer reads no clock: the caller passes the time, which
// allows tests to simulate it.
//
// With bursts, `burst` packets share a time, and the bursts are that many intervals apart, so the
// mean rate is unchanged.
//
// In a replay each packet has its own time, relative to the capture.
//
// A schedule does not wait. When the generator or the device falls behind, packets are sent late;
// their latency still counts from the intended time, so a stall shows in all the latencies that it
// caused (no coordinated omission). Packets later than a bound are dropped from the schedule by
// skip_before() and count as unsent.
//
// Thread safety: none; used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace headrace::traffic {

class Pacer {
 public:
  /// Schedules packets at `pps` from `begin` until before `end` (TSC), the first at `begin` +
  /// `phase` of an interval (0 <= phase < 1), `burst` (at least 1) at a time. `pps` <= 0: none.
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
    // Rounded up by more than the division's error: a packet due exactly at `end` is excluded.
    interval_ += (interval_ >> 62) + 1;
    next_ =
        (static_cast<Fixed>(begin) << 64) +
        static_cast<Fixed>(static_cast<long double>(phase) * static_cast<long double>(interval_));
  }

  /// Schedules packets at `begin` + each of `offsets` (cycles, ascending, not empty), repeated
  /// every `period`, until before `end`. The offsets must outlive the schedule.
  void start(uint64_t begin, uint64_t end, std::span<const uint64_t> offsets,
             uint64_t period) noexcept {
    end_ = end;
    period_begin_ = begin;
    offsets_ = offsets;
    period_ = period;
    index_ = 0;
    next_ = static_cast<Fixed>(begin + offsets.front()) << 64;
  }

  /// The intended time of the next packet.
  [[nodiscard]] uint64_t next() const noexcept { return static_cast<uint64_t>(next_ >> 64); }
  /// Whether no packet is left.
  [[nodiscard]] bool done() const noexcept { return next() >= end_; }
  /// Whether there is a next packet and its time has come.
  [[nodiscard]] bool due(uint64_t now) const noexcept { return next() <= now && !done(); }
  /// Truncates the schedule: packets at `now` or later are removed.
  void stop(uint64_t now) noexcept {
    if (now < end_) end_ = now;
  }
  /// Advances to the next packet.
  void advance() noexcept {
    if (!offsets_.empty()) return advance_offset();
    if (--left_ != 0) return;
    left_ = burst_;
    next_ += interval_;
  }

  /// Removes all packets before `time`; returns their number.
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
      period_begin_ += period_;
    }
    next_ = static_cast<Fixed>(period_begin_ + offsets_[index_]) << 64;
  }

  Fixed next_{0};
  Fixed interval_{1};  ///< from one burst to the next
  uint32_t burst_{1};
  uint32_t left_{1};  ///< of the burst at next_
  uint64_t end_{0};
  std::span<const uint64_t> offsets_;  ///< of a replay; empty: a rate
  size_t index_{0};
  uint64_t period_begin_{0};
  uint64_t period_{0};
};

}  // namespace headrace::traffic
