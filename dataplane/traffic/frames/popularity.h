// SPDX-License-Identifier: Apache-2.0
// In which order a stream's flows take their turns.
//
// Uniform: round robin; every flow equally often. Zipf with exponent s: the k-th flow with a
// probability in proportion to 1/k^s, as traffic in the wild is spread (s near 1). The order is
// drawn once from a seed and repeated, so that two runs send the same.
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
  /// Flow numbers in their order, to be repeated; empty if it is round robin.
  [[nodiscard]] std::vector<uint32_t> order(uint32_t flows) const;
  [[nodiscard]] nlohmann::json to_json() const;
};

}  // namespace headrace::traffic
