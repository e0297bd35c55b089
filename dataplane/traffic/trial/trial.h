// SPDX-License-Identifier: Apache-2.0
// One trial: all streams sent and received, by one worker or several.
//
// Course: leftovers of earlier runs are drained from the ports; the warm-up is sent, with a run
// number of its own, and not counted; then the trial is sent and counted (a load goes on without a
// break); then the workers receive for `drain_s`, or until 5 ms after every packet has come back.
//
// Several workers share the ports: with at least as many ports as workers each port belongs to one,
// its sending and its polling; with fewer the two may be different workers'. No queue is ever used
// by two. (More than that, a port of several queues, would count reordering that is our own.)
//
// Thread safety: made by the control thread; run() by the workers; stop() and all getters by
// anyone. Getters during run() give figures of about now.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "traffic/trial/trial_part.h"
#include "traffic/trial/trial_state.h"

namespace headrace::traffic {

/// Which of `workers` sends to and which polls each of `ports` ports.
std::vector<std::pair<unsigned, unsigned>> share_ports(size_t ports, unsigned workers);

class Trial {
 public:
  /// `ports`: all that are polled; they and what is in `lanes` must outlive the trial. `run`: its
  /// number, and `run` - 1 its warm-up's. `workers`: at least 1.
  Trial(std::span<const Lane> lanes, std::span<const TrafficPort* const> ports,
        const TrialOptions& options, uint8_t run, unsigned workers);

  /// The part of the worker with this number; all workers must run theirs. Returns when all is sent
  /// and drained.
  void run(size_t worker) { parts_[worker]->run(); }
  /// Ends sending soon; run() then drains and returns.
  void stop() { state_.stop.store(true, std::memory_order_relaxed); }

  [[nodiscard]] const TrialOptions& options() const { return state_.options; }
  [[nodiscard]] size_t streams() const { return state_.lanes.size(); }
  [[nodiscard]] const Stream& stream(size_t i) const { return *state_.lanes[i].stream; }
  [[nodiscard]] const Sender& sender(size_t i) const { return *state_.senders[i]; }
  [[nodiscard]] const Arrivals& arrivals(size_t i) const { return *state_.arrivals[i]; }
  /// Arrivals of stream `i` at other ports than its own.
  [[nodiscard]] uint64_t misdelivered(size_t i) const;
  [[nodiscard]] const std::vector<std::unique_ptr<TrialPart>>& parts() const { return parts_; }
  /// Seconds for which the trial has been sending (or sent), its warm-up left out.
  [[nodiscard]] double sending_s() const;

 private:
  TrialState state_;
  std::vector<std::unique_ptr<TrialPart>> parts_;
};

}  // namespace headrace::traffic
