// SPDX-License-Identifier: Apache-2.0
#include "traffic/frames/popularity.h"

#include <gtest/gtest.h>

#include <cmath>

namespace headrace::traffic {
namespace {

TEST(Popularity, UniformNeedsNoOrder) {
  EXPECT_TRUE(Popularity{}.order(1000).empty());
  EXPECT_TRUE((Popularity{.zipf = 1.0}.order(1).empty()));
}

TEST(Popularity, ZipfFollowsItsLaw) {
  for (const double exponent : {0.8, 1.0, 1.3}) {
    const std::vector<uint32_t> order = Popularity{.zipf = exponent}.order(1000);
    std::vector<double> counts(1000);
    for (const uint32_t flow : order) counts.at(flow) += 1;
    double total = 0;
    for (int k = 1; k <= 1000; ++k) total += std::pow(k, -exponent);
    for (const int k : {1, 2, 10, 100}) {
      const double expected = static_cast<double>(order.size()) * std::pow(k, -exponent) / total;
      EXPECT_NEAR(counts[static_cast<size_t>(k - 1)], expected, 5 * std::sqrt(expected)) << k;
    }
  }
}

TEST(Popularity, TheSeedDecides) {
  const auto order = [](uint64_t seed) { return Popularity{.zipf = 1.0, .seed = seed}.order(50); };
  EXPECT_EQ(order(3), order(3));
  EXPECT_NE(order(3), order(4));
}

TEST(Popularity, WrongOnesAreRefused) {
  EXPECT_TRUE(Popularity::read("uniform", "/p"));
  EXPECT_TRUE(Popularity::read({{"zipf", 1.1}}, "/p"));
  EXPECT_FALSE(Popularity::read("zipf", "/p"));
  EXPECT_FALSE(Popularity::read({{"zipf", 0}}, "/p"));
  EXPECT_FALSE(Popularity::read({{"zipf", 1}, {"sed", 1}}, "/p"));
}

}  // namespace
}  // namespace headrace::traffic
