// SPDX-License-Identifier: Apache-2.0
// A token bucket for events: at most `rate` per second, with bursts of at most `rate`.
#pragma once

#include <algorithm>
#include <cstdint>

namespace headrace::vnf {

class RateLimit {
 public:
  RateLimit(uint32_t per_second, uint64_t tsc_hz)
      : per_second_(per_second), tsc_hz_(tsc_hz), tokens_(per_second) {}

  /// Takes a token; false if none is left at `now`.
  bool take(uint64_t now) noexcept {
    if (last_ == 0) last_ = now;
    const uint64_t elapsed = std::min(now - last_, tsc_hz_);
    const uint64_t fresh = elapsed * per_second_ / tsc_hz_;
    if (fresh > 0) {
      tokens_ = std::min<uint64_t>(per_second_, tokens_ + fresh);
      last_ = now;
    }
    if (tokens_ == 0) return false;
    --tokens_;
    return true;
  }

 private:
  uint64_t per_second_;
  uint64_t tsc_hz_;
  uint64_t tokens_;
  uint64_t last_{0};
};

}  // namespace headrace::vnf
