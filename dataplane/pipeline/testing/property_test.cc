// SPDX-License-Identifier: Apache-2.0
// The compiled pipeline against the reference: random pipelines, random packets, changes in
// between; the same packets out, byte for byte, and the same counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "match/fields/simd.h"
#include "pipeline/testing/compare.h"

namespace headrace::pipeline::test {
namespace {

TEST(Property, CompiledAndReferenceAgree) {
  constexpr int kRounds = 400;
  for (int round = 0; round < kRounds; ++round) {
    // Each level of vector instructions in turn.
    const std::span levels = match::simd_levels();
    match::set_simd(levels[static_cast<size_t>(round) % levels.size()]);
    std::mt19937_64 random(static_cast<uint64_t>(round));
    const Choose choose = [&](uint64_t below) { return below == 0 ? 0 : random() % below; };
    const std::string difference = compare_once(choose, 100);
    ASSERT_EQ(difference, "") << "seed " << round;
  }
}

}  // namespace
}  // namespace headrace::pipeline::test
