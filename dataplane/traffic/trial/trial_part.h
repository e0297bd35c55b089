// SPDX-License-Identifier: Apache-2.0
// One worker's part of a trial: the streams that it sends and the ports that it polls, in one loop.
//
// A round of the loop pumps each sender once and polls each port once. Each is bounded (a burst of
// 32), so no port waits long for another. With `yield` the worker offers its core to others
// (sched_yield) after each round.
//
// Thread safety: made by the control thread; run() by its worker; getters by anyone.
#pragma once

#include <cstdint>
#include <vector>

#include "base/counter.h"
#include "traffic/measure/receiver.h"
#include "traffic/trial/trial_state.h"

namespace headrace::traffic {

class TrialPart {
 public:
  /// What a worker has to do. A port's streams are sent by one worker, and it is polled by one.
  struct Duties {
    std::vector<size_t> lanes;               ///< streams to send
    std::vector<const TrafficPort*> polled;  ///< ports
  };

  TrialPart(TrialState& state, Duties duties);

  /// Runs together with the trial's other parts, each in its worker: returns when all is sent and
  /// drained.
  void run();

  [[nodiscard]] const Receiver& receiver() const { return receiver_; }
  /// Share of the worker's cycles since the trial's begin in rounds that moved packets.
  [[nodiscard]] double busy_share() const;
  /// Share of the time of sending in which the kernel let the worker run; the rest others had the
  /// core. Below 0 while it still sends. (What a hypervisor takes is not seen.)
  [[nodiscard]] double on_core_share() const;
  /// How often the kernel took the core away while it sent.
  [[nodiscard]] uint64_t preemptions() const { return preemptions_.read(); }

 private:
  void start_senders(uint8_t run, uint64_t begin, uint64_t end);
  uint64_t warm_up(uint64_t begin);
  void send_phase(uint64_t begin);
  void drain_phase();
  void discard_leftovers();
  bool round(bool send) noexcept;
  unsigned pump_all(uint64_t now) noexcept;
  [[nodiscard]] bool all_sent() const;

  TrialState& state_;
  Duties duties_;
  Receiver receiver_;
  Counter busy_cycles_;
  Counter total_cycles_;
  Counter sending_ns_;  ///< of the clock; 0: it still sends
  Counter running_ns_;  ///< of these, with the core
  Counter preemptions_;
};

}  // namespace headrace::traffic
