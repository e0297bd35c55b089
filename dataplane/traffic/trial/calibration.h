// SPDX-License-Identifier: Apache-2.0
// The generator looped to itself: what it can do and how exact it is, with nothing behind it.
//
// Over net_ring ports of its own, one for each worker (a ring in memory whose transmit side is its
// receive side):
// * ceiling: packets per second sent and received by all workers, as fast as they can, per size;
// * latency floor: what a packet costs that is sent at its time and found at the next poll, at
//   a moderate load: subtract it in mind from every latency measured;
// * timing error: how much later than meant packets are handed to the device, at the same load.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/result.h"
#include "traffic/ports/traffic_port.h"
#include "traffic/trial/trial.h"

namespace headrace::traffic {

struct CalibrationOptions {
  std::vector<uint16_t> sizes{64, 512, 1518};  ///< with FCS
  double duration_s{0.5};                      ///< of each of its trials
  double load_pps{1e6};                        ///< for latency floor and timing error, at 64 B

  static Result<CalibrationOptions> read(const nlohmann::json& params);
};

class Calibration {
 public:
  /// Makes the port and the trials. `number` keeps device names apart. Control thread.
  static Result<std::unique_ptr<Calibration>> make(const CalibrationOptions& options,
                                                   unsigned number, unsigned workers);
  /// A worker's part of all trials.
  void run(size_t worker);
  /// Ends run() soon. Control thread.
  void stop();
  /// {"via","ceilings":[{"size","ceiling_pps","loss_ratio","workers"}],"at_pps",
  /// "latency_floor_ns","timing_error_ns","workers":[{"busy_share","on_core_share","preemptions"}]},
  /// the last three of the trial at `at_pps`; after run().
  [[nodiscard]] nlohmann::json to_json() const;

 private:
  explicit Calibration(const CalibrationOptions& options) : options_(options) {}

  CalibrationOptions options_;
  std::vector<std::unique_ptr<TrafficPort>> ports_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Trial>> ceilings_;  ///< one per size
  std::unique_ptr<Trial> paced_;
};

}  // namespace headrace::traffic
