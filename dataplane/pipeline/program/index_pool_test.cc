// SPDX-License-Identifier: Apache-2.0
#include "pipeline/program/index_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>

namespace headrace::pipeline {
namespace {

using testing::ElementsAre;
using Runs = std::vector<std::pair<uint32_t, uint32_t>>;

Runs trim(IndexPool& pool) {
  Runs runs;
  pool.trim([&](uint32_t first, uint32_t count) { runs.emplace_back(first, count); });
  return runs;
}

TEST(IndexPool, GivesEachNumberOnce) {
  IndexPool pool(1, 4);
  EXPECT_EQ(pool.take(), 1u);
  EXPECT_EQ(pool.take(), 2u);
  EXPECT_EQ(pool.take(), 3u);
  EXPECT_EQ(pool.take(), std::nullopt);
  pool.give(2);
  EXPECT_EQ(pool.take(), 2u);
  EXPECT_EQ(pool.take(), std::nullopt);
}

TEST(IndexPool, TrimsRunsAndTakesTheLowestNext) {
  IndexPool pool(1, 100);
  for (uint32_t n = 1; n < 20; ++n) EXPECT_EQ(pool.take(), n);
  for (const uint32_t n : {3u, 17u, 4u, 19u, 10u, 18u, 5u}) pool.give(n);
  EXPECT_THAT(trim(pool), ElementsAre(std::pair(17u, 3u), std::pair(10u, 1u), std::pair(3u, 3u)));
  EXPECT_EQ(pool.limit(), 17u);
  for (const uint32_t n : {3u, 4u, 5u, 10u, 17u}) EXPECT_EQ(pool.take(), n);
}

TEST(IndexPool, IsTheSameBeforeAndAfterTrims) {
  std::mt19937 random(1);
  IndexPool pool(1, 200);
  std::set<uint32_t> used;
  for (unsigned step = 0; step < 10'000; ++step) {
    const unsigned what = random() % 100;
    if (what == 0) {
      std::set<uint32_t> unused;
      for (const auto& [first, count] : trim(pool)) {
        for (uint32_t n = first; n < first + count; ++n) EXPECT_TRUE(unused.insert(n).second);
      }
      for (const uint32_t n : used) EXPECT_FALSE(unused.contains(n)) << n;
      EXPECT_EQ(pool.limit(), used.empty() ? 1 : *used.rbegin() + 1);
    } else if (what < 50 && !used.empty()) {
      const auto at = std::next(used.begin(), static_cast<long>(random() % used.size()));
      pool.give(*at);
      used.erase(at);
    } else if (const auto index = pool.take()) {
      EXPECT_TRUE(used.insert(*index).second);
    } else {
      EXPECT_EQ(used.size(), 199u);
    }
  }
}

}  // namespace
}  // namespace headrace::pipeline
