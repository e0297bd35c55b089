// SPDX-License-Identifier: Apache-2.0
// One end of a channel under measurement, and how one is made for each kind of channel.
//
// Threads: an end is made, used and destroyed by the one thread of its own process.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace headrace::channel {

inline constexpr uint32_t kBurst = 32;

/// What is to be done with each packet.
struct Work {
  uint32_t length{60};
  bool touch{false};
};

/// What one turn did.
struct Turn {
  uint32_t packets{0};
  uint32_t foreign{0};
  uint32_t corrupt{0};
};

class End {
 public:
  virtual ~End() = default;
  /// Moves up to a burst.
  virtual Turn turn(const Work& work) = 0;
};

enum class Role : uint8_t { producer, consumer };

/// A channel as it was prepared before the ends were forked.
class Channel {
 public:
  virtual ~Channel() = default;
  /// In the end's own process. Fails with what is missing, in words.
  virtual Result<std::unique_ptr<End>> open(Role role, uint32_t cpu) = 0;
};

}  // namespace headrace::channel
