// SPDX-License-Identifier: Apache-2.0
// How a trial is run: load, duration, and when a packet is too late.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/result.h"
#include "traffic/frames/stream.h"

namespace headrace::traffic {

struct TrialOptions {
  std::optional<double> load_pps;    ///< of all streams together; none: as fast as the ports accept
  std::optional<double> duration_s;  ///< none: until stop() or `packets` are sent
  std::optional<uint64_t> packets;   ///< without a load: this many of each stream, back to back
  uint32_t burst{1};                 ///< with a load: packets sent back to back
  bool poisson{false};               ///< with a load: exponential gaps between packets or bursts
  bool bare{false};                  ///< packets without signature, arrivals only counted
  double warmup_s{0};
  double drain_s{0.1};
  double late_bound_us{10'000};  ///< packets later than this are unsent
  bool yield{false};             ///< yield the core after each round
  bool histograms{false};        ///< of latencies, in the result
};

/// Bytes that a frame takes on an Ethernet line besides its own: preamble, delimiter, gap.
inline constexpr double kLineOverhead = 20;

/// Reads the parameters of the methods trial and start (docs/traffic.md). The load is one of
/// load_pps, load_bps (layer 1: includes kLineOverhead) and load_percent (of line_rate_bps, default
/// 10e9); the mean packet length is that of `streams`. With `needs_end`, duration_s or packets is
/// mandatory.
Result<TrialOptions> read_trial_options(const nlohmann::json& params,
                                        std::span<const Stream> streams, bool needs_end);

}  // namespace headrace::traffic
