// SPDX-License-Identifier: Apache-2.0
#include "traffic/measure/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headrace::traffic {

void Histogram::merge(const Histogram& other) noexcept {
  for (unsigned i = 0; i < kBuckets; ++i) {
    if (const uint64_t count = other.counts_[i].read(); count != 0) counts_[i].add(count);
  }
  sum_.add(other.sum_.read());
  min_.set(std::min(min_.read(), other.min_.read()));
  max_.set(std::max(max_.read(), other.max_.read()));
}

void Histogram::clear() noexcept {
  for (Counter& count : counts_) count.set(0);
  sum_.set(0);
  max_.set(0);
  min_.set(std::numeric_limits<uint64_t>::max());
}

uint64_t Histogram::count() const noexcept {
  uint64_t total = 0;
  for (const Counter& count : counts_) total += count.read();
  return total;
}

uint64_t Histogram::min() const noexcept {
  const uint64_t value = min_.read();
  return value == std::numeric_limits<uint64_t>::max() ? 0 : value;
}

double Histogram::mean() const noexcept {
  const uint64_t total = count();
  return total == 0 ? 0.0 : static_cast<double>(sum_.read()) / static_cast<double>(total);
}

double Histogram::quantile(double fraction) const noexcept {
  const uint64_t total = count();
  if (total == 0) return 0.0;
  const auto rank = std::clamp<uint64_t>(
      static_cast<uint64_t>(std::ceil(fraction * static_cast<double>(total))), 1, total);
  uint64_t below = 0;
  for (unsigned i = 0; i < kBuckets; ++i) {
    below += counts_[i].read();
    if (below < rank) continue;
    const uint64_t low = lower_bound(i);
    const uint64_t width = i + 1 < kBuckets ? lower_bound(i + 1) - low : 1;
    const double middle = static_cast<double>(low) + static_cast<double>(width - 1) / 2;
    return std::clamp(middle, static_cast<double>(min()), static_cast<double>(max()));
  }
  return static_cast<double>(max());
}

}  // namespace headrace::traffic
