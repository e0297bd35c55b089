// SPDX-License-Identifier: Apache-2.0
// The state shared by the workers of one trial: its streams, their counters, its times.
//
// Thread safety: made by the control thread. A stream's sender is used by the worker that sends it,
// its arrivals are written by the worker that polls its rx port (trial_part.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/counter.h"
#include "traffic/frames/stream.h"
#include "traffic/measure/receiver.h"
#include "traffic/ports/traffic_port.h"
#include "traffic/trial/barrier.h"
#include "traffic/trial/sender.h"
#include "traffic/trial/trial_options.h"

namespace headrace::traffic {

/// A stream with its ports.
struct TrialStream {
  const Stream* stream;
  const TrafficPort* tx;
  const TrafficPort* rx;
};

struct TrialState {
  /// `run`: this trial's number; its warm-up has `run` - 1. `workers`: how many share it.
  TrialState(std::span<const TrialStream> all, const TrialOptions& wanted, uint8_t run,
             unsigned workers);

  [[nodiscard]] uint64_t cycles(double seconds) const {
    return static_cast<uint64_t>(seconds * tsc_hz);
  }
  /// Whether stream `i` has a schedule: a share of the load, or a capture's own times.
  [[nodiscard]] bool scheduled(size_t i) const {
    return options.load_pps || streams[i].stream->replay_speed > 0;
  }
  /// Makes the times of Poisson arrivals of every stream that has a share of the load.
  void make_poisson();
  /// The schedule of stream `i`, from `from` until before `until` (TSC).
  [[nodiscard]] Pacer schedule(size_t i, uint64_t from, uint64_t until) const;
  /// Whether every packet sent has come back.
  [[nodiscard]] bool all_back() const;

  const std::vector<TrialStream> streams;
  const TrialOptions options;
  const uint8_t run;
  const double tsc_hz;
  double total_share{0};                             ///< of the streams that share the load
  std::vector<std::vector<uint64_t>> replay_cycles;  ///< times of replays at their own timing
  /// Times of Poisson arrivals, one period of them, by stream; and the period's length in cycles.
  std::vector<std::vector<uint64_t>> poisson_cycles;
  std::vector<uint64_t> poisson_period;
  std::vector<std::unique_ptr<Sender>> senders;     ///< by stream
  std::vector<std::unique_ptr<Arrivals>> arrivals;  ///< by stream
  std::atomic<bool> stop{false};
  Barrier barrier;
  uint64_t planned{0};            ///< TSC of the next phase's begin, set at the last barrier
  Counter begin;                  ///< TSC of the first packet's time; 0: not yet begun
  Counter end;                    ///< TSC when everything was sent; 0: not yet
  std::atomic<unsigned> sending;  ///< workers that still send
};

}  // namespace headrace::traffic
