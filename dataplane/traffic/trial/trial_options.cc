// SPDX-License-Identifier: Apache-2.0
#include "traffic/trial/trial_options.h"

#include <algorithm>

#include "traffic/frames/params.h"

namespace headrace::traffic {

namespace {

constexpr double kMaxPps = 1e9;

/// Bits of the streams' mean packet on the line.
double mean_line_bits(std::span<const Stream> streams) {
  double share = 0;
  double bytes = 0;
  for (const Stream& stream : streams) {
    share += stream.share;
    bytes += stream.share * (stream.sizes.mean() + kLineOverhead);
  }
  return share > 0 ? 8 * bytes / share : 0;
}

void read_load(ParamReader& reader, std::span<const Stream> streams, TrialOptions& options) {
  double pps = 0;
  double bps = 0;
  double percent = 0;
  double line_rate = 10e9;
  const char* key = nullptr;
  const auto read = [&](const char* name, double& out) {
    if (!reader.optional(name, out)) return;
    if (key != nullptr) reader.reject(name, "{} is given too; give one load", key);
    if (!(out > 0)) reader.reject(name, "must be above 0");
    key = name;
  };
  read("load_pps", pps);
  read("load_bps", bps);
  read("load_percent", percent);
  if (reader.optional("line_rate_bps", line_rate) && !(line_rate > 0)) {
    reader.reject("line_rate_bps", "must be above 0");
  }
  if (key == nullptr) return;
  if (percent > 0) bps = line_rate * percent / 100;
  if (bps > 0) pps = streams.empty() ? 1 : bps / mean_line_bits(streams);
  if (pps > kMaxPps) reader.reject(key, "is {} packets/s; the maximum is {}", pps, kMaxPps);
  options.load_pps = pps;
}

}  // namespace

Result<TrialOptions> read_trial_options(const nlohmann::json& params,
                                        std::span<const Stream> streams, bool needs_end) {
  TrialOptions options;
  ParamReader reader(params, "");
  read_load(reader, streams, options);
  double duration = 0;
  if (reader.optional("duration_s", duration)) {
    options.duration_s = duration;
    if (!(duration > 0 && duration <= 86400)) {
      reader.reject("duration_s", "must be above 0 and at most 86400");
    }
  }
  uint64_t packets = 0;
  if (reader.optional("packets", packets)) {
    options.packets = packets;
    if (packets == 0) reader.reject("packets", "must be at least 1");
    if (options.load_pps) reader.reject("packets", "are sent back to back; leave the load out");
  }
  const bool replays = std::any_of(streams.begin(), streams.end(),
                                   [](const Stream& stream) { return stream.replay_speed > 0; });
  if (options.packets && !options.duration_s && replays) {
    reader.reject("packets", "do not end a replay at its own timing; give duration_s too");
  }
  if (needs_end && !options.duration_s && !options.packets) {
    reader.reject("duration_s", "is missing");
  }
  if (reader.optional("burst", options.burst)) {
    if (options.burst == 0) reader.reject("burst", "must be at least 1");
    if (!options.load_pps) reader.reject("burst", "needs a load; write packets for one burst");
  }
  if (reader.optional("poisson", options.poisson) && options.poisson && !options.load_pps) {
    reader.reject("poisson", "needs a load");
  }
  if (reader.optional("bare", options.bare) && options.bare) {
    for (size_t i = 0; i < streams.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (streams[j].rx_port != streams[i].rx_port) continue;
        reader.reject("bare",
                      "streams {} and {} arrive at one port, and only a signature tells "
                      "them apart",
                      streams[j].name, streams[i].name);
      }
    }
  }
  const auto bounded = [&reader](const char* key, double largest, double& out) {
    if (reader.optional(key, out) && !(out >= 0 && out <= largest)) {
      reader.reject(key, "must be from 0 to {}", largest);
    }
  };
  bounded("warmup_s", 3600, options.warmup_s);
  bounded("drain_s", 60, options.drain_s);
  bounded("late_bound_us", 1e7, options.late_bound_us);
  reader.optional("yield", options.yield);
  reader.optional("histograms", options.histograms);
  if (auto ok = reader.finish(); !ok) return tl::unexpected(ok.error());
  return options;
}

}  // namespace headrace::traffic
