// SPDX-License-Identifier: Apache-2.0
// States of a group or meter by the version of the program that they go with.
//
// A bundle changes flows, groups and meters, and a packet must meet all of its changes or none. The
// flows are behind the program's one pointer, but rules refer to groups and meters by handles,
// which outlive programs. So each state of a group or meter says since which version of its LSI's
// program it is good, and leads to the one before. The control thread links the new states, which
// no worker takes yet, and then publishes the program of that version: the one store by which all
// becomes visible.
//
// Invariants: along `before`, `since` never grows. What is behind a state is freed a grace period
// after its version was published: then no worker has an older program, so none follows `before`.
//
// Thread safety: at() by workers; set() by the control thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace headrace::pipeline {

/// What a state begins with.
template <typename State>
struct Versioned {
  uint64_t since{0};             ///< the first version of the program that it goes with
  const State* before{nullptr};  ///< good for programs older than `since`; null: there was none
  bool removed{false};           ///< from `since` on there is none
};

/// The group or meter of one number, for as long as its LSI lives.
template <typename State>
class VersionedHandle {
 public:
  /// The state that a program of this version goes with; null: there is none. Good until the
  /// worker's next quiescent state.
  [[nodiscard]] const State* at(uint64_t version) const noexcept {
    const State* state = newest_.load(std::memory_order_acquire);
    while (state != nullptr && state->since > version) [[unlikely]] state = state->before;
    return state == nullptr || state->removed ? nullptr : state;
  }
  [[nodiscard]] const State* newest() const noexcept {
    return newest_.load(std::memory_order_relaxed);
  }
  /// `state` is complete, with newest() as its `before`.
  void set(const State* state) noexcept { newest_.store(state, std::memory_order_release); }

 private:
  std::atomic<const State*> newest_{nullptr};
};

}  // namespace headrace::pipeline
