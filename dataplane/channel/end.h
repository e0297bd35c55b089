// SPDX-License-Identifier: Apache-2.0
// One end of a channel under measurement, and the factory for each kind of channel.
//
// Threads: an end is made, used and destroyed by the single thread of its process.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace headrace::channel {

inline constexpr uint32_t kBurst = 32;

/// How each packet is processed.
struct Work {
  uint32_t length{60};
  bool touch{false};
};

/// The result of one poll.
struct PollResult {
  uint32_t packets{0};
  uint32_t foreign{0};
  uint32_t corrupt{0};
};

class End {
 public:
  virtual ~End() = default;
  /// Moves up to a burst.
  virtual PollResult poll(const Work& work) = 0;
};

enum class Role : uint8_t { producer, consumer };

/// A channel as prepared before the ends are forked.
class Channel {
 public:
  virtual ~Channel() = default;
  /// Called in the end's process. The error says what is missing.
  virtual Result<std::unique_ptr<End>> open(Role role, uint32_t cpu) = 0;
};

}  // namespace headrace::channel
