// SPDX-License-Identifier: Apache-2.0
// One worker's part of a trial: the streams that it sends and the ports that it polls, in one loop.
//
// A round of the loop pumps each sender once and polls each port once. Each is bounded (a burst of
// 32), so no port waits long for another. With `yield` the worker yields its core (sched_yield)
// after each round.
//
// Thread safety: made by the control thread; run() is called by its worker; getters by any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/counter.h"
#include "traffic/measure/receiver.h"
#include "traffic/trial/trial_state.h"

namespace headrace::traffic {

class TrialPart {
 public:
  /// The streams and ports of a worker. One worker sends all of a port's streams, and one polls it.
  struct Assignment {
    std::vector<size_t> streams;             ///< streams to send
    std::vector<const TrafficPort*> polled;  ///< ports
  };

  TrialPart(TrialState& state, Assignment assigned);

  /// Runs together with the trial's other parts, each in its worker; returns when all packets are
  /// sent and drained.
  void run();

  [[nodiscard]] const Receiver& receiver() const { return receiver_; }
  /// Share of the worker's cycles since the trial's begin spent in rounds that moved packets.
  [[nodiscard]] double busy_share() const;
  /// Cycles of its rounds while it sent, of those that moved packets, and the numbers of both.
  [[nodiscard]] uint64_t total_cycles() const { return total_cycles_.read(); }
  [[nodiscard]] uint64_t busy_cycles() const { return busy_cycles_.read(); }
  [[nodiscard]] uint64_t rounds() const { return rounds_.read(); }
  [[nodiscard]] uint64_t busy_rounds() const { return busy_rounds_.read(); }
  /// Share of the sending time in which the kernel ran this worker. Negative while it still sends.
  /// (Time taken by a hypervisor is not included.)
  [[nodiscard]] double on_core_share() const;
  /// Polls of its ports while it sent, those that brought nothing and those that brought a full
  /// burst (more may have waited).
  [[nodiscard]] uint64_t polls() const { return polls_.read(); }
  [[nodiscard]] uint64_t empty_polls() const { return empty_polls_.read(); }
  [[nodiscard]] uint64_t full_polls() const { return full_polls_.read(); }
  /// How often the kernel preempted the worker while it sent.
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
  Assignment assigned_;
  Receiver receiver_;
  Counter busy_cycles_;
  Counter total_cycles_;
  Counter rounds_;
  Counter busy_rounds_;
  Counter sending_ns_;  ///< wall-clock time; 0: it still sends
  Counter running_ns_;  ///< of these, on the core
  Counter preemptions_;
  Counter polls_;
  Counter empty_polls_;
  Counter full_polls_;
};

}  // namespace headrace::traffic
