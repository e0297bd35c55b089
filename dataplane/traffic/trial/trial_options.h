// SPDX-License-Identifier: Apache-2.0
// How a trial is run: how much is sent, for how long, and what counts as too late.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/result.h"
#include "traffic/frames/stream.h"

namespace headrace::traffic {

struct TrialOptions {
  std::optional<double> load_pps;    ///< of all streams together; none: as fast as the ports take
  std::optional<double> duration_s;  ///< none: until stop() or `packets` are sent
  std::optional<uint64_t> packets;   ///< without a load: this many of each stream, back to back
  uint32_t burst{1};                 ///< with a load: packets that are meant for one time
  double warmup_s{0};
  double drain_s{0.1};
  double late_bound_us{10'000};  ///< packets later than this are unsent
  bool yield{false};             ///< offer the core to others after each round
  bool histograms{false};        ///< of latencies, in the result
};

/// Bytes that a frame takes on an Ethernet line beside its own: preamble, delimiter, gap.
inline constexpr double kLineOverhead = 20;

/// Reads the parameters of the methods trial and start (docs/traffic.md). The load is one of
/// load_pps, load_bps (layer 1: kLineOverhead counts) and load_percent (of line_rate_bps, default
/// 10e9); `streams` say how long the mean packet is. With `needs_end`, duration_s or packets must
/// be there.
Result<TrialOptions> read_trial_options(const nlohmann::json& params,
                                        std::span<const Stream> streams, bool needs_end);

}  // namespace headrace::traffic
