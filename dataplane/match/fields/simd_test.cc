// SPDX-License-Identifier: Apache-2.0
#include "match/fields/simd.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace headrace::match {
namespace {

TEST(SimdTest, NamesAreReadBack) {
  for (const Simd level : {Simd::portable, Simd::avx2, Simd::avx512}) {
    EXPECT_EQ(simd_named(name(level)), level);
  }
  EXPECT_EQ(simd_named("auto"), std::nullopt);
  EXPECT_EQ(simd_named(""), std::nullopt);
}

TEST(SimdTest, NoMoreIsSetThanTheProcessorHas) {
  const std::span levels = simd_levels();
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(levels.front(), Simd::portable);
  EXPECT_TRUE(std::is_sorted(levels.begin(), levels.end()));
  EXPECT_EQ(simd(), levels.back()) << "the best, unless told otherwise";
  for (const Simd level : {Simd::portable, Simd::avx2, Simd::avx512}) {
    set_simd(level);
    EXPECT_EQ(simd(), std::min(level, levels.back()));
  }
  set_simd(levels.back());
}

}  // namespace
}  // namespace headrace::match
