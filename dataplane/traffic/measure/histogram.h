// SPDX-License-Identifier: Apache-2.0
// A log-linear histogram of durations, mergeable, for percentiles with a known error.
//
// Each power of two is divided into 128 buckets of equal width (the scheme of HdrHistogram), so the
// width of a bucket is at most 1/128 of its values, and a percentile, given as the middle of its
// bucket, has an error of at most 0.4 %. Values below 256 are exact. Values of 2^40 and more are in
// the last bucket; as TSC cycles that is nine minutes at 2 GHz. Minimum, maximum and mean are
// exact.
//
// Thread safety: one writer; readers may read at any time: each counter is consistent, but not the
// set of all counters.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/counter.h"

namespace headrace::traffic {

class Histogram {
 public:
  static constexpr unsigned kSubBits = 7;
  static constexpr unsigned kValueBits = 40;
  static constexpr unsigned kBuckets = (kValueBits - kSubBits + 1) << kSubBits;

  Histogram() noexcept { clear(); }

  void record(uint64_t value) noexcept {
    counts_[index(value)].add(1);
    sum_.add(value);
    if (value < min_.read()) min_.set(value);
    if (value > max_.read()) max_.set(value);
  }

  /// Adds the counts of `other`.
  void merge(const Histogram& other) noexcept;
  void clear() noexcept;

  [[nodiscard]] uint64_t count() const noexcept;
  /// The number of values in a bucket.
  [[nodiscard]] uint64_t count_of(unsigned bucket) const noexcept { return counts_[bucket].read(); }
  /// Of all values.
  [[nodiscard]] uint64_t sum() const noexcept { return sum_.read(); }
  /// 0 if empty, like the getters below.
  [[nodiscard]] uint64_t min() const noexcept;
  [[nodiscard]] uint64_t max() const noexcept { return max_.read(); }
  [[nodiscard]] double mean() const noexcept;
  /// The smallest value that at least `fraction` (0..1) of the values do not exceed, to the
  /// histogram's precision; never below min() or above max().
  [[nodiscard]] double quantile(double fraction) const noexcept;

  /// The bucket of `value`.
  static constexpr unsigned index(uint64_t value) noexcept {
    constexpr uint64_t kLargest = (uint64_t{1} << kValueBits) - 1;
    if (value > kLargest) value = kLargest;
    if (value < (uint64_t{1} << kSubBits)) return static_cast<unsigned>(value);
    const unsigned exponent = 63U - static_cast<unsigned>(std::countl_zero(value));
    const unsigned shift = exponent - kSubBits;
    return (shift << kSubBits) + static_cast<unsigned>(value >> shift);
  }
  /// The smallest value of bucket `index`.
  static constexpr uint64_t lower_bound(unsigned index) noexcept {
    if (index < (2U << kSubBits)) return index;
    const unsigned shift = (index >> kSubBits) - 1;
    return uint64_t{index - (shift << kSubBits)} << shift;
  }

 private:
  std::array<Counter, kBuckets> counts_{};
  Counter sum_;
  Counter max_;
  Counter min_;
};

}  // namespace headrace::traffic
