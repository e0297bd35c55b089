// SPDX-License-Identifier: Apache-2.0
#include "traffic/trial/calibration.h"

#include <algorithm>

#include "traffic/frames/params.h"
#include "traffic/frames/stream.h"
#include "traffic/trial/report.h"

namespace headrace::traffic {

using nlohmann::json;

Result<CalibrationOptions> CalibrationOptions::read(const json& params) {
  CalibrationOptions options;
  ParamReader reader(params, "");
  json sizes;
  if (reader.optional("sizes", sizes)) {
    if (!sizes.is_array() || sizes.empty() || sizes.size() > 16) {
      reader.reject("sizes", "must be a list of 1 to 16 frame sizes");
    } else {
      options.sizes.clear();
      for (size_t i = 0; i < sizes.size(); ++i) {
        const auto number = whole_number(sizes[i]);
        const auto size = SizeProfile::fixed(number.value_or(0));
        if (!size) {
          reader.reject("sizes/" + std::to_string(i), "{}", size.error().message);
          break;
        }
        options.sizes.push_back(size->largest());
      }
    }
  }
  if (reader.optional("duration_s", options.duration_s) &&
      !(options.duration_s > 0 && options.duration_s <= 60)) {
    reader.reject("duration_s", "must be above 0 and at most 60");
  }
  if (reader.optional("load_pps", options.load_pps) &&
      !(options.load_pps > 0 && options.load_pps <= 1e9)) {
    reader.reject("load_pps", "must be above 0 and at most 1e9");
  }
  if (auto ok = reader.finish(); !ok) return tl::unexpected(ok.error());
  return options;
}

Result<std::unique_ptr<Calibration>> Calibration::make(const CalibrationOptions& options,
                                                       unsigned number, unsigned workers) {
  std::unique_ptr<Calibration> calibration(new Calibration(options));
  const uint16_t largest = *std::max_element(options.sizes.begin(), options.sizes.end());
  std::vector<const TrafficPort*> loops;
  for (unsigned i = 0; i < workers; ++i) {
    auto port = TrafficPort::open({.name = fmt::format("calibration{}", i),
                                   .devargs = fmt::format("net_ring_cal{}_{}", number, i),
                                   .mac = "",
                                   .descriptors = 1024,
                                   .max_frame = std::max<uint16_t>(largest, 1518)});
    if (!port) return tl::unexpected(port.error());
    loops.push_back(port->get());
    calibration->ports_.push_back(std::move(*port));
  }
  uint8_t run = 0;
  const auto add = [&](uint16_t size, const TrialOptions& trial) {
    std::vector<TrialStream> trial_streams;
    for (const TrafficPort* const loop : loops) {
      auto streams = read_streams(
          json::array(
              {{{"name", "loop"}, {"tx_port", "loop"}, {"rx_port", "loop"}, {"size", size}}}),
          "/calibration");
      // The description was made above and is valid.
      calibration->streams_.push_back(std::make_unique<Stream>(std::move(streams->front())));
      trial_streams.push_back(
          {.stream = calibration->streams_.back().get(), .tx = loop, .rx = loop});
    }
    run = static_cast<uint8_t>(run + 2);
    return std::make_unique<Trial>(trial_streams, loops, trial, run,
                                   static_cast<unsigned>(loops.size()));
  };
  TrialOptions fastest;
  fastest.duration_s = options.duration_s;
  fastest.warmup_s = 0.05;
  for (const uint16_t size : options.sizes) {
    calibration->ceilings_.push_back(add(size, fastest));
  }
  TrialOptions paced = fastest;
  paced.load_pps = options.load_pps;
  calibration->paced_ = add(SizeProfile::kSmallest, paced);
  return calibration;
}

void Calibration::run(size_t worker) {
  for (const auto& trial : ceilings_) trial->run(worker);
  paced_->run(worker);
}

void Calibration::stop() {
  for (const auto& trial : ceilings_) trial->stop();
  paced_->stop();
}

json Calibration::to_json() const {
  json ceilings = json::array();
  for (size_t i = 0; i < ceilings_.size(); ++i) {
    const json result = trial_json(*ceilings_[i]);
    ceilings.push_back({{"size", options_.sizes[i]},
                        {"ceiling_pps", result["rx_pps"]},
                        {"loss_ratio", result["loss_ratio"]},
                        {"workers", result["generator"]["workers"]}});
  }
  const json result = trial_json(*paced_);
  return {{"via", "net_ring"},
          {"ceilings", std::move(ceilings)},
          {"at_pps", options_.load_pps},
          {"latency_floor_ns", result["latency_ns"]},
          {"timing_error_ns", result["generator"]["timing_error_ns"]},
          {"workers", result["generator"]["workers"]}};
}

}  // namespace headrace::traffic
