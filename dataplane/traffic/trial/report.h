// SPDX-License-Identifier: Apache-2.0
// A trial's figures as the JSON of the control protocol (docs/traffic.md).
#pragma once

#include <nlohmann/json.hpp>

#include "traffic/measure/histogram.h"
#include "traffic/trial/trial.h"

namespace headrace::traffic {

/// {"count","min","mean","p50","p90","p99","p99_9","max"} in nanoseconds; for an empty histogram
/// only the count.
nlohmann::json latency_json(const Histogram& cycles, double tsc_hz);

/// The whole histogram, which can be merged with others (headrace/traffic/histogram.py):
/// {"hz","sub_bits","min","max","sum","buckets":[[number, count],...]}, values in cycles of `hz`,
/// without empty buckets.
nlohmann::json histogram_json(const Histogram& cycles, double tsc_hz);

/// The trial's result, or, while it runs, the result so far.
nlohmann::json trial_json(const Trial& trial);

}  // namespace headrace::traffic
