// SPDX-License-Identifier: Apache-2.0
// The load that something causes, as the share of a CPU over the last minute, from a count of
// cycles that only grows.
//
// Thread safety: none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace headrace::runtime {

class QueueLoad {
 public:
  /// Intervals that are remembered, and the length of one.
  static constexpr size_t kIntervals = 6;
  static constexpr uint64_t kIntervalSeconds = 10;

  /// Begins at `now` (TSC), when `cycles` had been spent.
  QueueLoad(uint64_t now, uint64_t cycles) { points_.fill({now, cycles}); }

  /// Notes what has been spent until `now`, once an interval (of `hz` TSC cycles a second) is over.
  void note(uint64_t now, uint64_t cycles, uint64_t hz) {
    if (now - points_[newest_].time < kIntervalSeconds * hz) return;
    newest_ = (newest_ + 1) % kIntervals;
    points_[newest_] = {now, cycles};
  }

  /// The share from the oldest point that is remembered until `now`; 0 for no time.
  [[nodiscard]] double load(uint64_t now, uint64_t cycles) const {
    const Point& oldest = points_[(newest_ + 1) % kIntervals];
    // What has become less has lost a part; it is measured again from the next point on.
    if (now <= oldest.time || cycles < oldest.cycles) return 0;
    return static_cast<double>(cycles - oldest.cycles) / static_cast<double>(now - oldest.time);
  }

 private:
  struct Point {
    uint64_t time;
    uint64_t cycles;
  };
  std::array<Point, kIntervals> points_{};
  size_t newest_{0};
};

}  // namespace headrace::runtime
