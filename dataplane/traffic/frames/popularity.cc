// SPDX-License-Identifier: Apache-2.0
#include "traffic/frames/popularity.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "traffic/frames/params.h"

namespace headrace::traffic {

namespace {

/// The length of an order: enough for the least popular flows of a small set to occur.
constexpr size_t kOrderLength = 1 << 20;

}  // namespace

Result<Popularity> Popularity::read(const nlohmann::json& value, const std::string& path) {
  Popularity popularity;
  if (value == "uniform") return popularity;
  if (!value.is_object()) {
    return fail_as("bad_params", "{}: write \"uniform\" or {{\"zipf\": exponent}}", path);
  }
  ParamReader reader(value, path);
  reader.required("zipf", popularity.zipf);
  reader.optional("seed", popularity.seed);
  if (!(popularity.zipf > 0 && popularity.zipf <= 10)) {
    reader.reject("zipf", "must be above 0 and at most 10");
  }
  if (auto ok = reader.finish(); !ok) return tl::unexpected(ok.error());
  return popularity;
}

std::vector<uint32_t> Popularity::order(uint32_t flows) const {
  std::vector<uint32_t> order;
  if (zipf == 0 || flows == 1) return order;
  std::vector<double> cumulative(flows);
  double total = 0;
  for (uint32_t flow = 0; flow < flows; ++flow) {
    total += std::pow(flow + 1.0, -zipf);
    cumulative[flow] = total;
  }
  // std::mt19937_64's raw output: unlike the library's distributions, it is the same everywhere.
  std::mt19937_64 random(seed);
  order.resize(kOrderLength);
  for (uint32_t& turn : order) {
    const double at = static_cast<double>(random() >> 11) * 0x1p-53 * total;
    const auto found = std::upper_bound(cumulative.begin(), cumulative.end() - 1, at);
    turn = static_cast<uint32_t>(found - cumulative.begin());
  }
  return order;
}

nlohmann::json Popularity::to_json() const {
  if (zipf == 0) return "uniform";
  return {{"zipf", zipf}, {"seed", seed}};
}

}  // namespace headrace::traffic
