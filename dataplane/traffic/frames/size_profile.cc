// SPDX-License-Identifier: Apache-2.0
#include "traffic/frames/size_profile.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "traffic/frames/params.h"

namespace headrace::traffic {

namespace {

using Weights = std::map<uint16_t, uint32_t>;

SizeProfile from_weights(std::string name, const Weights& weights) {
  SizeProfile profile{.name = std::move(name)};
  uint32_t divisor = 0;
  for (const auto& [size, weight] : weights) divisor = std::gcd(divisor, weight);
  for (const auto& [size, weight] : weights) {
    profile.sizes.push_back(size);
    profile.weights.push_back(weight / divisor);
  }
  // Smooth weighted round robin: each step takes the size that is furthest behind its share.
  const auto total = std::accumulate(profile.weights.begin(), profile.weights.end(), int64_t{0});
  std::vector<int64_t> behind(profile.sizes.size());
  for (int64_t step = 0; step < total; ++step) {
    for (size_t i = 0; i < behind.size(); ++i) behind[i] += profile.weights[i];
    const auto most = std::max_element(behind.begin(), behind.end());
    *most -= total;
    profile.pattern.push_back(static_cast<uint8_t>(most - behind.begin()));
  }
  return profile;
}

Result<SizeProfile> from_genome(std::string_view name, std::string_view letters) {
  static const std::map<char, uint16_t> kSizes{{'a', 64},   {'b', 128},  {'c', 256},
                                               {'d', 512},  {'e', 1024}, {'f', 1280},
                                               {'g', 1518}, {'h', 2112}, {'z', 9018}};
  if (letters.empty() || letters.size() > 4096) {
    return fail_as("bad_params", "'{}': write 1 to 4096 letters after the colon", name);
  }
  Weights weights;
  for (const char letter : letters) {
    const auto size = kSizes.find(letter);
    if (size == kSizes.end()) {
      return fail_as("bad_params", "'{}': '{}' is not one of RFC 6985's letters a to h and z", name,
                     letter);
    }
    ++weights[size->second];
  }
  SizeProfile profile = from_weights(std::string(name), weights);
  profile.pattern.clear();
  for (const char letter : letters) {
    const auto at = std::lower_bound(profile.sizes.begin(), profile.sizes.end(), kSizes.at(letter));
    profile.pattern.push_back(static_cast<uint8_t>(at - profile.sizes.begin()));
  }
  return profile;
}

}  // namespace

Result<SizeProfile> SizeProfile::fixed(uint64_t size) {
  if (size < kSmallest || size > kLargest) {
    return fail_as("bad_params", "{} is not a frame size; write {} to {} (with FCS)", size,
                   kSmallest, kLargest);
  }
  return from_weights(std::to_string(size), {{static_cast<uint16_t>(size), 1}});
}

Result<SizeProfile> SizeProfile::imix(std::string_view name) {
  if (name == "imix-nfvbench")
    return from_weights(std::string(name), {{64, 7}, {594, 4}, {1518, 1}});
  if (name == "imix-csit") return from_weights(std::string(name), {{64, 28}, {570, 16}, {1518, 4}});
  constexpr std::string_view kGenome = "imix-genome:";
  if (name.starts_with(kGenome)) return from_genome(name, name.substr(kGenome.size()));
  return fail_as("bad_params",
                 "'{}' is not a known IMIX; write imix-nfvbench, imix-csit or "
                 "imix-genome:<letters>",
                 name);
}

Result<SizeProfile> SizeProfile::from_json(const nlohmann::json& value) {
  if (const auto size = whole_number(value)) return fixed(*size);
  if (value.is_string()) return imix(value.get<std::string>());
  return fail_as("bad_params", "must be a frame size in bytes or the name of an IMIX");
}

double SizeProfile::mean() const {
  uint64_t bytes = 0;
  uint64_t packets = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    bytes += uint64_t{sizes[i]} * weights[i];
    packets += weights[i];
  }
  return static_cast<double>(bytes) / static_cast<double>(packets);
}

nlohmann::json SizeProfile::to_json() const {
  return {{"name", name}, {"sizes", sizes}, {"weights", weights}, {"mean", mean()}};
}

}  // namespace headrace::traffic
