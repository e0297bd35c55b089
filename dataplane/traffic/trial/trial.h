// SPDX-License-Identifier: Apache-2.0
// One trial: all streams sent and received by one worker, in one loop.
//
// Course: leftovers of earlier runs are drained from the ports; the warm-up is sent, with a run
// number of its own, and not counted; then, without a break, the trial is sent and counted; then
// the worker listens for `drain_s`, or until 5 ms after every packet has come back.
//
// A round of the loop pumps each sender once and polls each port once. Each is bounded (a burst of
// 32), so no port waits long for another. With `yield` the worker offers its core to others
// (sched_yield) after each round.
//
// Thread safety: made by the control thread; run() by the worker; stop() and all getters by anyone.
// Getters during run() give figures of about now.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "traffic/frames/stream.h"
#include "traffic/measure/counter.h"
#include "traffic/measure/receiver.h"
#include "traffic/ports/traffic_port.h"
#include "traffic/trial/sender.h"
#include "traffic/trial/trial_options.h"

namespace headrace::traffic {

class Trial {
 public:
  /// A stream with its ports. All must outlive the trial.
  struct Lane {
    const Stream* stream;
    const TrafficPort* tx;
    const TrafficPort* rx;
  };

  /// `ports`: all that are polled. `run`: this trial's number, and `run` - 1 its warm-up's.
  Trial(std::span<const Lane> lanes, std::span<const TrafficPort* const> ports,
        const TrialOptions& options, uint8_t run);

  /// The worker's part: returns when all is sent and drained.
  void run();
  /// Ends sending soon; run() then drains and returns.
  void stop() { stop_.store(true, std::memory_order_relaxed); }

  [[nodiscard]] const TrialOptions& options() const { return options_; }
  [[nodiscard]] size_t streams() const { return senders_.size(); }
  [[nodiscard]] const Stream& stream(size_t i) const { return *lanes_[i].stream; }
  [[nodiscard]] const Sender& sender(size_t i) const { return *senders_[i]; }
  [[nodiscard]] const Arrivals& arrivals(size_t i) const { return receiver_.stream(i); }
  [[nodiscard]] const Receiver& receiver() const { return receiver_; }
  /// Seconds for which the trial has been sending (or sent), its warm-up left out.
  [[nodiscard]] double sending_s() const;
  /// Share of the worker's cycles since the trial's begin in rounds that moved packets.
  [[nodiscard]] double busy_share() const;

 private:
  void send_phase();
  void drain_phase();
  /// Stream `i` has a schedule: a share of the load, or a capture's own times.
  [[nodiscard]] bool scheduled(size_t i) const;
  /// When stream `i` sends what, from `begin` until before `end`.
  [[nodiscard]] Pacer schedule(size_t i, uint64_t begin, uint64_t end) const;
  void start_senders(uint8_t run, uint64_t begin, uint64_t end);
  void discard_leftovers();
  bool round(bool send) noexcept;
  unsigned pump_all(uint64_t now) noexcept;
  [[nodiscard]] bool all_sent() const;
  [[nodiscard]] bool all_back() const;
  [[nodiscard]] uint64_t cycles(double seconds) const;

  std::vector<Lane> lanes_;
  std::vector<uint16_t> polled_;  ///< ethdevs
  TrialOptions options_;
  uint8_t run_;
  double tsc_hz_;
  double total_share_{0};                             ///< of the streams that share the load
  std::vector<std::vector<uint64_t>> replay_cycles_;  ///< times of replays at their own timing
  std::vector<std::unique_ptr<Sender>> senders_;
  Receiver receiver_;
  std::atomic<bool> stop_{false};
  Counter begin_;  ///< TSC of the first packet's time; 0: not yet
  Counter end_;    ///< TSC when all was sent; 0: not yet
  Counter busy_cycles_;
  Counter total_cycles_;
};

}  // namespace headrace::traffic
