// SPDX-License-Identifier: Apache-2.0
#include "shm/direct_link.h"

#include "shm/vnf_end.h"

namespace headrace::shm {

bool DirectLink::step(SwitchEnd& ends) {
  LinkWords& sender = ends.region().port(from_).link;
  LinkWords& receiver = ends.region().port(to_).link;
  const bool wanted = wanted_.load(std::memory_order_acquire);
  switch (state_) {
    case State::off:
      if (wanted) {
        sender.tx_wanted.store(1 + to_, std::memory_order_release);
        state_ = State::asking;
      }
      return true;
    case State::asking:
      if (sender.tx_now.load(std::memory_order_acquire) == 1 + to_) state_ = State::draining;
      return true;
    case State::draining:
      return true;  // polled() moves on
    case State::opening:
      if (Reading{receiver.rx_now.load(std::memory_order_acquire)} == Reading::open) {
        state_ = State::on;
      }
      return true;
    case State::on:
      if (!wanted) {
        sender.tx_wanted.store(0, std::memory_order_release);
        state_ = State::closing;
      }
      [[fallthrough]];
    case State::closing:
      if (state_ == State::closing && sender.tx_now.load(std::memory_order_acquire) == 0) {
        receiver.rx_wanted.store(static_cast<uint32_t>(Reading::closed), std::memory_order_release);
        state_ = State::emptying;
      }
      return state_ == State::on;
    case State::emptying:
      if (Reading{receiver.rx_now.load(std::memory_order_acquire)} == Reading::closed) {
        state_ = State::off;
        return true;
      }
      return false;
  }
  return true;
}

void DirectLink::polled(SwitchEnd& ends, bool drained) {
  if (state_ != State::draining || !drained) return;
  LinkWords& receiver = ends.region().port(to_).link;
  receiver.rx_after.store(ends.sent_position(to_), std::memory_order_relaxed);
  receiver.rx_wanted.store(static_cast<uint32_t>(Reading::open), std::memory_order_release);
  state_ = State::opening;
}

}  // namespace headrace::shm
