// SPDX-License-Identifier: Apache-2.0
#include "traffic/trial/report.h"

#include <rte_cycles.h>

#include <algorithm>
#include <memory>

namespace headrace::traffic {

using nlohmann::json;

namespace {

struct Counts {
  uint64_t sent{0};
  uint64_t unsent{0};
  uint64_t received{0};
  uint64_t duplicated{0};
  uint64_t reordered{0};
  uint64_t misdelivered{0};

  void add(const Trial& trial, size_t stream) {
    const Sender& sender = trial.sender(stream);
    const Arrivals& arrivals = trial.arrivals(stream);
    // Read `received` first: packets that arrive in between must not make it exceed `sent`.
    received += arrivals.received.read();
    duplicated += arrivals.duplicated.read();
    reordered += arrivals.reordered.read();
    misdelivered += trial.misdelivered(stream);
    sent += sender.sent();
    unsent += sender.unsent();
  }
};

json counts_json(const Counts& counts, const Histogram& latency, double seconds, double tsc_hz) {
  const uint64_t intended = counts.sent + counts.unsent;
  const uint64_t lost = counts.sent - std::min(counts.sent, counts.received);
  const auto per_second = [seconds](uint64_t count) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0;
  };
  json result{{"intended", intended},
              {"sent", counts.sent},
              {"unsent", counts.unsent},
              {"received", counts.received},
              {"lost", lost},
              {"duplicated", counts.duplicated},
              {"reordered", counts.reordered},
              {"misdelivered", counts.misdelivered},
              {"tx_pps", per_second(counts.sent)},
              {"rx_pps", per_second(counts.received)},
              {"loss_ratio", intended == 0 ? 0
                                           : static_cast<double>(lost + counts.unsent) /
                                                 static_cast<double>(intended)},
              {"latency_ns", latency_json(latency, tsc_hz)},
              {"pdv_ns", nullptr}};
  if (latency.count() > 0) {
    // RFC 8219: D(99.9th percentile) - D(min).
    const double cycles = latency.quantile(0.999) - static_cast<double>(latency.min());
    result["pdv_ns"] = cycles * 1e9 / tsc_hz;
  }
  return result;
}

json generator_json(const Trial& trial) {
  json workers = json::array();
  double busy = 0;
  uint64_t foreign = 0;
  uint64_t stale = 0;
  json io{{"tx_bursts", 0}, {"tx_full_bursts", 0}, {"tx_refused", 0},
          {"rx_polls", 0},  {"rx_empty_polls", 0}, {"rx_full_polls", 0}};
  const auto count = [&io](const char* name, uint64_t more) {
    io[name] = io[name].get<uint64_t>() + more;
  };
  for (size_t i = 0; i < trial.streams(); ++i) {
    count("tx_bursts", trial.sender(i).bursts());
    count("tx_full_bursts", trial.sender(i).full_bursts());
    count("tx_refused", trial.sender(i).refused());
  }
  for (const auto& part : trial.parts()) {
    const double on_core = part->on_core_share();
    workers.push_back({{"busy_share", part->busy_share()},
                       {"cycles", part->total_cycles()},
                       {"busy_cycles", part->busy_cycles()},
                       {"rounds", part->rounds()},
                       {"busy_rounds", part->busy_rounds()},
                       {"on_core_share", on_core < 0 ? json() : json(on_core)},
                       {"preemptions", part->preemptions()}});
    busy = std::max(busy, part->busy_share());
    foreign += part->receiver().foreign();
    stale += part->receiver().stale();
    count("rx_polls", part->polls());
    count("rx_empty_polls", part->empty_polls());
    count("rx_full_polls", part->full_polls());
  }
  return {{"busy_share", busy},
          {"foreign", foreign},
          {"stale", stale},
          {"io", std::move(io)},
          {"workers", std::move(workers)}};
}

}  // namespace

json latency_json(const Histogram& cycles, double tsc_hz) {
  const uint64_t count = cycles.count();
  json result{{"count", count}};
  if (count == 0) return result;
  const auto nanoseconds = [tsc_hz](double value) { return value * 1e9 / tsc_hz; };
  result["min"] = nanoseconds(static_cast<double>(cycles.min()));
  result["mean"] = nanoseconds(cycles.mean());
  result["p50"] = nanoseconds(cycles.quantile(0.5));
  result["p90"] = nanoseconds(cycles.quantile(0.9));
  result["p99"] = nanoseconds(cycles.quantile(0.99));
  result["p99_9"] = nanoseconds(cycles.quantile(0.999));
  result["max"] = nanoseconds(static_cast<double>(cycles.max()));
  return result;
}

json histogram_json(const Histogram& cycles, double tsc_hz) {
  json buckets = json::array();
  for (unsigned i = 0; i < Histogram::kBuckets; ++i) {
    if (const uint64_t count = cycles.count_of(i); count != 0) {
      buckets.push_back(json::array({i, count}));
    }
  }
  return {{"hz", tsc_hz},        {"sub_bits", Histogram::kSubBits},
          {"min", cycles.min()}, {"max", cycles.max()},
          {"sum", cycles.sum()}, {"buckets", std::move(buckets)}};
}

json trial_json(const Trial& trial) {
  const auto tsc_hz = static_cast<double>(rte_get_tsc_hz());
  const double seconds = trial.sending_s();
  Counts total;
  auto latency = std::make_unique<Histogram>();
  auto lateness = std::make_unique<Histogram>();
  json streams = json::array();
  for (size_t i = 0; i < trial.streams(); ++i) {
    Counts counts;
    counts.add(trial, i);
    total.add(trial, i);
    latency->merge(trial.arrivals(i).latency);
    lateness->merge(trial.sender(i).lateness());
    json stream = counts_json(counts, trial.arrivals(i).latency, seconds, tsc_hz);
    stream.update(trial.stream(i).to_json());
    stream["ancient"] = trial.arrivals(i).ancient.read();
    if (trial.options().histograms) {
      stream["latency_histogram"] = histogram_json(trial.arrivals(i).latency, tsc_hz);
    }
    streams.push_back(std::move(stream));
  }
  json result = counts_json(total, *latency, seconds, tsc_hz);
  if (trial.options().histograms) result["latency_histogram"] = histogram_json(*latency, tsc_hz);
  result["duration_s"] = seconds;
  result["load_pps"] = trial.options().load_pps ? json(*trial.options().load_pps) : json();
  result["generator"] = generator_json(trial);
  result["generator"]["limited"] = total.unsent != 0;
  result["generator"]["timing_error_ns"] = latency_json(*lateness, tsc_hz);
  result["streams"] = std::move(streams);
  return result;
}

}  // namespace headrace::traffic
