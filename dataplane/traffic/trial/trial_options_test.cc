// SPDX-License-Identifier: Apache-2.0
#include "traffic/trial/trial_options.h"

#include <gtest/gtest.h>

namespace headrace::traffic {
namespace {

using nlohmann::json;

std::vector<Stream> streams() {
  return *read_streams(
      json::parse(R"([{"name": "s", "tx_port": "a", "rx_port": "b", "size": 64, "share": 3},
                      {"name": "l", "tx_port": "a", "rx_port": "b", "size": 1518}])"),
      "/streams");
}

std::string refusal(const char* params) {
  const auto list = streams();
  const auto options = read_trial_options(json::parse(params), list, true);
  return options ? std::string() : options.error().message;
}

TEST(TrialOptions, LoadsInEveryUnit) {
  const auto list = streams();
  const auto pps = [&](const char* params) {
    return read_trial_options(json::parse(params), list, true)->load_pps.value_or(-1);
  };
  EXPECT_EQ(pps(R"({"duration_s": 1, "load_pps": 0.25})"), 0.25);
  // Three of 84 bytes to one of 1538 on the line: 447.5 on average.
  EXPECT_DOUBLE_EQ(pps(R"({"duration_s": 1, "load_bps": 3580})"), 1);
  EXPECT_DOUBLE_EQ(pps(R"({"duration_s": 1, "load_percent": 12.5})"), 1.25e9 / 3580);
  EXPECT_DOUBLE_EQ(pps(R"({"duration_s": 1, "load_percent": 50, "line_rate_bps": 7160})"), 1);
  EXPECT_EQ(pps(R"({"duration_s": 1, "load_pps": null})"), -1);
}

TEST(TrialOptions, SixtyFourBytesAtTenGigabit) {
  const auto list =
      *read_streams(json::parse(R"([{"name": "s", "tx_port": "a", "rx_port": "b"}])"), "/streams");
  const auto options =
      read_trial_options(json::parse(R"({"duration_s": 1, "load_percent": 100})"), list, true);
  EXPECT_NEAR(*options->load_pps, 14'880'952.38, 0.01);
}

TEST(TrialOptions, RefusalsNameTheMember) {
  for (const auto& [params, place] : std::vector<std::pair<const char*, const char*>>{
           {R"({})", "/duration_s: is missing"},
           {R"({"duration_s": 0})", "/duration_s"},
           {R"({"duration_s": 1, "load_pps": 0})", "/load_pps"},
           {R"({"duration_s": 1, "load_pps": 2e9})", "/load_pps"},
           {R"({"duration_s": 1, "load_pps": 1, "load_bps": 1})", "/load_bps: load_pps"},
           {R"({"duration_s": 1, "load_percent": 1, "line_rate_bps": -1})", "/line_rate_bps"},
           {R"({"packets": 0})", "/packets"},
           {R"({"packets": 5, "load_pps": 1})", "/packets"},
           {R"({"duration_s": 1, "burst": 5})", "/burst"},
           {R"({"duration_s": 1, "poisson": true})", "/poisson"},
           {R"({"duration_s": 1, "bare": true})", "/bare: streams s and l"},
           {R"({"duration_s": 1, "load_pps": 1, "burst": 0})", "/burst"},
           {R"({"duration_s": 1, "drain_s": 61})", "/drain_s"},
           {R"({"duration_s": 1, "yield": 1})", "/yield"}}) {
    EXPECT_NE(refusal(params).find(place), std::string::npos) << params << ": " << refusal(params);
  }
  EXPECT_EQ(refusal(R"({"packets": 5})"), "");
}

}  // namespace
}  // namespace headrace::traffic
