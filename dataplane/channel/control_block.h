// SPDX-License-Identifier: Apache-2.0
// What the controlling process and the two ends share: orders one way, counts the other.
//
// Mapped shared and anonymous before the ends are forked, so that it goes with the last of them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/counter.h"

namespace headrace::channel {

enum class Order : uint32_t {
  wait,   ///< not yet to open the channel: the parent process moves interfaces first
  pause,  ///< open, but idle: other processes use the core
  run,
  quit,
};

enum class State : uint32_t { starting, forked, open, failed };

/// What an end reports. Counts only grow.
struct EndStatus {
  alignas(64) std::atomic<State> state{State::starting};
  std::array<char, 512> error{};  ///< written before State::failed
  alignas(64) Counter packets;
  Counter foreign;  ///< received, but not of the length that was sent
  Counter corrupt;  ///< the payload is not what was written
};

struct ControlBlock {
  alignas(64) std::atomic<Order> order{Order::wait};
  /// Counts up with each new `length` and `touch`: an end may sleep through a short pause.
  std::atomic<uint32_t> window{0};
  std::atomic<uint32_t> length{60};  ///< octets of a packet, without FCS
  std::atomic<bool> touch{false};    ///< write each cache line, and read each
  EndStatus producer;
  EndStatus consumer;
};

}  // namespace headrace::channel
