// SPDX-License-Identifier: Apache-2.0
// Calibration: the generator's own limits and precision, measured in loopback.
//
// Over net_ring ports, one for each worker (a ring in memory whose transmit side is its receive
// side):
// * ceiling: packets per second sent and received by all workers at full speed, per size;
// * latency floor: the latency of a packet that is sent at its time and received by the next poll,
// at a moderate load: every latency measured includes it;
// * timing error: how long after their intended time packets are passed to the device, at the same
// load.
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
  /// Makes the ports and the trials. `number` makes device names unique. Control thread.
  static Result<std::unique_ptr<Calibration>> make(const CalibrationOptions& options,
                                                   unsigned number, unsigned workers);
  /// A worker's part of all trials.
  void run(size_t worker);
  /// Ends run() early. Control thread.
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
