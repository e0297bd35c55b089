// SPDX-License-Identifier: Apache-2.0
// The order in which the flows of a stream are sent.
//
// Uniform: round robin; all flows equally often. Zipf with exponent s: the k-th flow with a
// probability proportional to 1/k^s, like the flows of real traffic (s near 1). The order is drawn
// once from a seed and repeated, so that two runs send the same packets.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace headrace::traffic {

struct Popularity {
  double zipf{0};  ///< the exponent; 0: uniform
  uint64_t seed{1};

  /// "uniform", or {"zipf": s, "seed": n}; at `path`.
  static Result<Popularity> read(const nlohmann::json& value, const std::string& path);
  /// Flow numbers in the order of sending, to be repeated; empty for round robin.
  [[nodiscard]] std::vector<uint32_t> order(uint32_t flows) const;
  [[nodiscard]] nlohmann::json to_json() const;
};

}  // namespace headrace::traffic
