// SPDX-License-Identifier: Apache-2.0
// Shared state of the controlling process and the two ends: commands one way, counters the other.
//
// Mapped shared and anonymous before the ends are forked, so that it is freed with the last of
// them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/counter.h"

namespace headrace::channel {

enum class Command : uint32_t {
  wait,   ///< don't open the channel yet: the parent process moves interfaces first
  pause,  ///< open, but idle: other processes use the core
  run,
  quit,
};

enum class State : uint32_t { starting, forked, open, failed };

/// What an end reports. Counters only increase.
struct EndStatus {
  alignas(64) std::atomic<State> state{State::starting};
  std::array<char, 512> error{};  ///< written before State::failed
  alignas(64) Counter packets;
  Counter foreign;  ///< received with another length than was sent
  Counter corrupt;  ///< received with another payload than was written
};

struct ControlBlock {
  alignas(64) std::atomic<Command> command{Command::wait};
  /// Incremented with each new `length` and `touch`, since an end may miss a short pause.
  std::atomic<uint32_t> window{0};
  std::atomic<uint32_t> length{60};  ///< octets of a packet, without FCS
  std::atomic<bool> touch{false};    ///< write each cache line, and read each
  EndStatus producer;
  EndStatus consumer;
};

}  // namespace headrace::channel
