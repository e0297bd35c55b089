// SPDX-License-Identifier: Apache-2.0
// The switch's part in a direct link A -> B: the steps of vnf_end.h's protocol.
//
// A link is wanted or not; step() moves it on as the VNFs answer, and says whether the switch is to
// poll A. It waits for nobody: a VNF that never calls keeps a link half made, and loses nothing by
// it.
//
// Threads: the worker that polls A and sends to B calls step(); want() may come from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "shm/switch_end.h"

namespace headrace::shm {

class DirectLink {
 public:
  enum class State : uint8_t {
    off,       ///< A's packets go through the switch
    asking,    ///< A was asked to send directly
    draining,  ///< A does; what it sent to the switch before is still being forwarded
    opening,   ///< B was asked to read directly
    on,
    closing,  ///< A was asked to send to the switch
    emptying  ///< A does; B still reads what A sent directly
  };

  DirectLink(uint32_t from, uint32_t to) : from_(from), to_(to) {}

  void want(bool wanted) { wanted_.store(wanted, std::memory_order_release); }

  /// Moves on. False while the switch must not poll `from`: its packets there come after those
  /// that `to` has still to read from the direct ring.
  bool step(SwitchEnd& ends);

  /// Tells that all that was received from `from` so far has been handed on: `drained` is whether
  /// the last poll of it, after step(), found nothing.
  void polled(SwitchEnd& ends, bool drained);

  [[nodiscard]] uint32_t from() const { return from_; }
  [[nodiscard]] uint32_t to() const { return to_; }
  [[nodiscard]] State state() const { return state_; }

 private:
  uint32_t from_;
  uint32_t to_;
  State state_{State::off};
  std::atomic<bool> wanted_{false};
};

}  // namespace headrace::shm
