// SPDX-License-Identifier: Apache-2.0
#include "match/structures/prefix_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

namespace headrace::match {
namespace {

constexpr uint64_t kHighBit = uint64_t{1} << 63;

TEST(PrefixKey, IsCutInEitherWord) {
  const PrefixKey key{~uint64_t{0}, ~uint64_t{0}, 128};
  EXPECT_EQ(key.cut(0), (PrefixKey{0, 0, 0}));
  EXPECT_EQ(key.cut(1), (PrefixKey{kHighBit, 0, 1}));
  EXPECT_EQ(key.cut(64), (PrefixKey{~uint64_t{0}, 0, 64}));
  EXPECT_EQ(key.cut(65), (PrefixKey{~uint64_t{0}, kHighBit, 65}));
  EXPECT_EQ(key.cut(128), key);
}

TEST(PrefixKey, CoversWhatLiesInIt) {
  const PrefixKey half{kHighBit, 0, 1};
  EXPECT_TRUE(half.covers(half));
  EXPECT_TRUE(half.covers({kHighBit | 1, 7, 128}));
  EXPECT_FALSE(half.covers({1, 7, 128}));
  EXPECT_FALSE(half.covers({0, 0, 0}));
}

TEST(PrefixMap, HoldsWhatAnOrderedMapHolds) {
  std::mt19937 random(1);
  std::map<std::tuple<uint64_t, uint64_t, uint8_t>, uint32_t> expected;
  PrefixMap map;
  // Few different keys, so that they come and go often, in runs that share places.
  for (uint32_t step = 0; step < 50'000; ++step) {
    const PrefixKey full{uint64_t{random() % 64} << 58, uint64_t{random() % 16} << 60, 128};
    const PrefixKey key = full.cut(random() % 2 == 0 ? 6 : 68);
    const auto tuple = std::tuple(key.high, key.low, key.length);
    const PrefixRule* found = map.find(key);
    const auto known = expected.find(tuple);
    ASSERT_EQ(found != nullptr, known != expected.end());
    if (found == nullptr) {
      map.insert(key, {1, step});
      expected[tuple] = step;
    } else {
      ASSERT_EQ(found->index, known->second);
      map.erase(key);
      expected.erase(known);
    }
    ASSERT_EQ(map.size(), expected.size());
  }
  for (const auto& [key, index] : expected) {
    const auto [high, low, length] = key;
    const PrefixRule* found = map.find({high, low, length});
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->index, index);
    EXPECT_TRUE(map.any_of(
        [&](const PrefixKey&, const PrefixRule& rule) { return rule.index == found->index; }));
  }
  EXPECT_FALSE(
      map.any_of([](const PrefixKey& each, const PrefixRule&) { return each.length == 7; }));
}

}  // namespace
}  // namespace headrace::match
