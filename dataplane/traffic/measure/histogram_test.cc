// SPDX-License-Identifier: Apache-2.0
#include "traffic/measure/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

namespace headrace::traffic {
namespace {

TEST(Histogram, EveryBucketBeginsWhereTheLastEnds) {
  for (unsigned i = 0; i < Histogram::kBuckets; ++i) {
    const uint64_t low = Histogram::lower_bound(i);
    ASSERT_EQ(Histogram::index(low), i);
    if (i > 0) {
      ASSERT_EQ(Histogram::index(low - 1), i - 1);
    }
  }
  EXPECT_EQ(Histogram::index((uint64_t{1} << 40) - 1), Histogram::kBuckets - 1);
  EXPECT_EQ(Histogram::index(~uint64_t{0}), Histogram::kBuckets - 1);
}

TEST(Histogram, QuantilesAreWithinHalfAPercentOfTheSortedValues) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> law(9, 2);
  auto histogram = std::make_unique<Histogram>();
  std::vector<uint64_t> values;
  for (int i = 0; i < 100'000; ++i) {
    values.push_back(static_cast<uint64_t>(law(random)));
    histogram->record(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double fraction : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
    const auto rank = static_cast<size_t>(std::ceil(fraction * 100'000));
    const auto exact = static_cast<double>(values[rank == 0 ? 0 : rank - 1]);
    EXPECT_NEAR(histogram->quantile(fraction), exact, exact * 0.004 + 0.5) << fraction;
  }
  EXPECT_EQ(histogram->min(), values.front());
  EXPECT_EQ(histogram->max(), values.back());
  double sum = 0;
  for (const uint64_t value : values) sum += static_cast<double>(value);
  EXPECT_DOUBLE_EQ(histogram->mean(), sum / 100'000);
  EXPECT_EQ(histogram->count(), 100'000U);
}

TEST(Histogram, MergedIsAsIfRecordedInOne) {
  auto a = std::make_unique<Histogram>();
  auto b = std::make_unique<Histogram>();
  auto both = std::make_unique<Histogram>();
  for (uint64_t i = 1; i < 5000; ++i) {
    (i % 3 == 0 ? a : b)->record(i * i);
    both->record(i * i);
  }
  a->merge(*b);
  for (const double fraction : {0.1, 0.5, 0.999}) {
    EXPECT_EQ(a->quantile(fraction), both->quantile(fraction));
  }
  EXPECT_EQ(a->count(), both->count());
  EXPECT_EQ(a->min(), both->min());
  EXPECT_EQ(a->max(), both->max());
  EXPECT_EQ(a->mean(), both->mean());
}

TEST(Histogram, EmptyAndCleared) {
  auto histogram = std::make_unique<Histogram>();
  EXPECT_EQ(histogram->quantile(0.5), 0.0);
  EXPECT_EQ(histogram->min(), 0U);
  histogram->record(17);
  EXPECT_EQ(histogram->quantile(0.5), 17.0);
  histogram->clear();
  EXPECT_EQ(histogram->count(), 0U);
  EXPECT_EQ(histogram->max(), 0U);
}

}  // namespace
}  // namespace headrace::traffic
