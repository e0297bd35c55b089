// SPDX-License-Identifier: Apache-2.0
#include "traffic/trial/pacer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace headrace::traffic {
namespace {

TEST(Pacer, APacketMeantForTheEndIsNone) {
  for (const double hz : {2e9, 2.7e9, 1999999998.0, 2699999990.0, 3e9 + 2}) {
    for (const double pps : {30'000.0, 20'001.5, 7e5, 3.0, 1e6 / 3}) {
      const auto end = static_cast<uint64_t>(hz / 2);
      Pacer pacer;
      pacer.start(0, end, pps, hz, 0);
      uint64_t count = 0;
      for (; !pacer.done(); pacer.advance()) ++count;
      EXPECT_EQ(count, static_cast<uint64_t>(std::ceil(pps / 2))) << hz << " Hz, " << pps << " pps";
    }
  }
}

constexpr double kHz = 2e9;
constexpr uint64_t kBegin = 123'456'789'012;

uint64_t count_due(Pacer& pacer, uint64_t now) {
  uint64_t count = 0;
  for (; pacer.due(now); pacer.advance()) ++count;
  return count;
}

TEST(Pacer, SendsRateTimesDurationWithDecimals) {
  for (const double pps : {0.5, 3.0, 1234.567, 1e6, 14'880'952.381, 33'333'333.333}) {
    Pacer pacer;
    pacer.start(kBegin, kBegin + 1'000'000'000, pps, kHz, 0);
    EXPECT_EQ(count_due(pacer, ~uint64_t{0}), static_cast<uint64_t>(std::ceil(pps / 2))) << pps;
    EXPECT_TRUE(pacer.done());
  }
}

TEST(Pacer, EachPacketIsAtItsTimeWithoutDrift) {
  Pacer pacer;
  const double pps = 7'654'321.987;
  pacer.start(kBegin, kBegin + 2'000'000'000, pps, kHz, 0.25);
  for (uint64_t n = 0; !pacer.done(); ++n, pacer.advance()) {
    const long double exact = kBegin + (static_cast<long double>(n) + 0.25L) * (kHz / pps);
    ASSERT_NEAR(static_cast<double>(pacer.next() - exact), 0.0, 1.0) << n;
  }
}

TEST(Pacer, NothingIsDueBeforeItsTime) {
  Pacer pacer;
  pacer.start(kBegin, kBegin + 4'000'000'000, 1e6, kHz, 0);
  EXPECT_EQ(count_due(pacer, kBegin - 1), 0U);
  EXPECT_EQ(count_due(pacer, kBegin), 1U);
  EXPECT_EQ(count_due(pacer, kBegin + 1999), 0U);
  EXPECT_EQ(count_due(pacer, kBegin + 2000), 1U);
}

TEST(Pacer, AStallIsCaughtUpOrGivenUp) {
  Pacer pacer;
  pacer.start(kBegin, kBegin + 2'000'000'000, 1e6, kHz, 0);
  // 10 ms of stall; the oldest 4 ms are skipped.
  const uint64_t now = kBegin + 20'000'000;
  EXPECT_EQ(pacer.skip_before(now - 12'000'000), 4000U);
  EXPECT_EQ(count_due(pacer, now), 6001U);
  EXPECT_EQ(pacer.skip_before(now - 12'000'000), 0U);
  // Exactly the rest of the second is left.
  EXPECT_EQ(pacer.skip_before(~uint64_t{0}), 1'000'000U - 10'001);
  EXPECT_TRUE(pacer.done());
}

TEST(Pacer, BurstsShareATimeAndKeepTheRate) {
  Pacer pacer;
  pacer.start(kBegin, kBegin + 2'000'000'000, 1e6, kHz, 0, 100);
  EXPECT_EQ(count_due(pacer, kBegin), 100U);
  EXPECT_EQ(count_due(pacer, kBegin + 199'999), 0U);
  EXPECT_EQ(count_due(pacer, kBegin + 200'000), 100U);
  // Part of a burst is sent, its rest and the next three bursts are skipped.
  EXPECT_TRUE(pacer.due(kBegin + 400'000));
  pacer.advance();
  EXPECT_EQ(pacer.skip_before(kBegin + 1'000'001), 99U + 300U);
  EXPECT_EQ(pacer.next(), kBegin + 1'200'000);
  EXPECT_EQ(count_due(pacer, ~uint64_t{0}), 1'000'000U - 600);
}

TEST(Pacer, AReplayKeepsItsOwnTimesAndRepeats) {
  const std::vector<uint64_t> offsets{0, 10, 10, 500};
  Pacer pacer;
  pacer.start(kBegin, kBegin + 2000, offsets, 700);
  EXPECT_EQ(count_due(pacer, kBegin + 9), 1U);
  EXPECT_EQ(count_due(pacer, kBegin + 10), 2U);
  EXPECT_EQ(count_due(pacer, kBegin + 699), 1U);
  EXPECT_EQ(pacer.next(), kBegin + 700);
  EXPECT_EQ(pacer.skip_before(kBegin + 1200), 3U);
  EXPECT_EQ(pacer.next(), kBegin + 1200);
  EXPECT_EQ(count_due(pacer, ~uint64_t{0}), 1U + 4U)
      << "the schedule ends during the third repetition";
}

TEST(Pacer, NoRateIsNoPackets) {
  Pacer pacer;
  pacer.start(kBegin, kBegin + 2'000'000'000, 0, kHz, 0);
  EXPECT_TRUE(pacer.done());
  EXPECT_FALSE(pacer.due(~uint64_t{0}));
  EXPECT_EQ(pacer.skip_before(~uint64_t{0}), 0U);
}

}  // namespace
}  // namespace headrace::traffic
