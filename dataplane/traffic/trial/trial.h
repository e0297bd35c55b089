// SPDX-License-Identifier: Apache-2.0
// One trial: all streams are sent and received, by one or several workers.
//
// Phases: leftovers of earlier runs are drained from the ports; the warm-up is sent, with its own
// run number, and not counted; then the trial is sent and counted (with a load, without a pause in
// between); then the workers receive for `drain_s`, or until 5 ms after every packet has come back.
//
// Several workers share the ports. If there are at least as many ports as workers, one worker both
// sends to and polls each port; otherwise two different workers may. No queue is ever used by two.
// (Several queues per port would reorder packets in the generator itself.)
//
// Thread safety: made by the control thread; run() is called by the workers; stop() and all getters
// by any thread. During run() getters return approximate figures.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "traffic/trial/trial_part.h"
#include "traffic/trial/trial_state.h"

namespace headrace::traffic {

/// The worker that sends to and the worker that polls each of `ports` ports.
std::vector<std::pair<unsigned, unsigned>> share_ports(size_t ports, unsigned workers);

class Trial {
 public:
  /// `ports`: all polled ports; they and the ports and streams of `streams` must outlive the trial.
  /// `run`: its number; its warm-up has `run` - 1. `workers`: at least 1.
  Trial(std::span<const TrialStream> streams, std::span<const TrafficPort* const> ports,
        const TrialOptions& options, uint8_t run, unsigned workers);

  /// Runs the part of the worker with this number; all workers must run theirs. Returns when all
  /// packets are sent and drained.
  void run(size_t worker) { parts_[worker]->run(); }
  /// Ends sending early; run() then drains and returns.
  void stop() { state_.stop.store(true, std::memory_order_relaxed); }

  [[nodiscard]] const TrialOptions& options() const { return state_.options; }
  [[nodiscard]] size_t streams() const { return state_.streams.size(); }
  [[nodiscard]] const Stream& stream(size_t i) const { return *state_.streams[i].stream; }
  [[nodiscard]] const Sender& sender(size_t i) const { return *state_.senders[i]; }
  [[nodiscard]] const Arrivals& arrivals(size_t i) const { return *state_.arrivals[i]; }
  /// Arrivals of stream `i` at other ports than its rx port.
  [[nodiscard]] uint64_t misdelivered(size_t i) const;
  [[nodiscard]] const std::vector<std::unique_ptr<TrialPart>>& parts() const { return parts_; }
  /// Seconds for which the trial has been sending, without its warm-up.
  [[nodiscard]] double sending_s() const;

 private:
  TrialState state_;
  std::vector<std::unique_ptr<TrialPart>> parts_;
};

}  // namespace headrace::traffic
