// SPDX-License-Identifier: Apache-2.0
#include "traffic/measure/sequence.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <unordered_set>

#include "traffic/frames/signature.h"

namespace headrace::traffic {
namespace {

using Arrival = SequenceTracker::Arrival;

TEST(Sequence, InOrderWithGaps) {
  auto tracker = std::make_unique<SequenceTracker>();
  for (uint32_t i = 0; i < 1'000'000; i += 1 + i % 3)
    EXPECT_EQ(tracker->record(i), Arrival::in_order);
}

TEST(Sequence, LateOnesAreReorderedOnceThenDuplicates) {
  auto tracker = std::make_unique<SequenceTracker>();
  EXPECT_EQ(tracker->record(3), Arrival::in_order);
  EXPECT_EQ(tracker->record(1), Arrival::reordered);
  EXPECT_EQ(tracker->record(1), Arrival::duplicate);
  EXPECT_EQ(tracker->record(3), Arrival::duplicate);
  EXPECT_EQ(tracker->record(2), Arrival::reordered);
  EXPECT_EQ(tracker->record(4), Arrival::in_order);
  EXPECT_EQ(tracker->record(0), Arrival::reordered);
}

TEST(Sequence, WrapsAt32Bits) {
  auto tracker = std::make_unique<SequenceTracker>();
  for (const uint32_t near : {0x40000000U, 0x80000000U, 0xC0000000U, 0xFFFFFFFEU}) {
    EXPECT_EQ(tracker->record(near), Arrival::in_order);
  }
  EXPECT_EQ(tracker->record(1), Arrival::in_order);
  EXPECT_EQ(tracker->record(0xFFFFFFFF), Arrival::reordered);
  EXPECT_EQ(tracker->record(0), Arrival::reordered);
  EXPECT_EQ(tracker->record(0xFFFFFFFE), Arrival::duplicate);
}

TEST(Sequence, OlderThanTheWindowIsAncient) {
  auto tracker = std::make_unique<SequenceTracker>();
  tracker->record(SequenceTracker::kWindow);
  EXPECT_EQ(tracker->record(0), Arrival::ancient);
  EXPECT_EQ(tracker->record(1), Arrival::reordered);
}

TEST(Sequence, AgreesWithASetOverRandomArrivals) {
  std::mt19937 random(11);
  auto tracker = std::make_unique<SequenceTracker>();
  std::unordered_set<uint32_t> seen;
  uint32_t largest = 0;
  bool any = false;
  for (int i = 0; i < 500'000; ++i) {
    const uint32_t base = any ? largest : 0;
    const uint32_t jump = random() % 100 == 0 ? 1000 : 8;
    const uint32_t number = base + 4 + random() % jump - (random() % std::min(base + 4, 300U));
    const Arrival expected = seen.contains(number)     ? Arrival::duplicate
                             : any && number < largest ? Arrival::reordered
                                                       : Arrival::in_order;
    ASSERT_EQ(tracker->record(number), expected) << number << " after " << largest;
    seen.insert(number);
    largest = std::max(largest, number);
    any = true;
  }
}

TEST(Sequence, ClearBeginsAtZero) {
  auto tracker = std::make_unique<SequenceTracker>();
  tracker->record(99);
  tracker->clear();
  EXPECT_EQ(tracker->record(0), Arrival::in_order);
  EXPECT_EQ(tracker->record(99), Arrival::in_order);
}

TEST(Signature, RoundTripAtTheLimits) {
  for (const uint64_t time : {uint64_t{0}, uint64_t{0xAB'CDEF'0123}, Signature::kTimeMask}) {
    const Signature sent{.stream = 0xFFFE, .sequence = 0xFEDCBA98, .time = time, .run = 0xA5};
    uint8_t bytes[Signature::kBytes];
    sent.write(bytes);
    const auto got = Signature::read(bytes);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->stream, sent.stream);
    EXPECT_EQ(got->sequence, sent.sequence);
    EXPECT_EQ(got->time, time);
    EXPECT_EQ(got->run, sent.run);
    bytes[1] ^= 1;
    EXPECT_FALSE(Signature::read(bytes));
  }
}

TEST(Signature, AgeAcrossTheWrap) {
  const Signature sent{.stream = 0, .sequence = 0, .time = Signature::kTimeMask - 9, .run = 0};
  EXPECT_EQ(sent.age((uint64_t{7} << 40) + 90), 100U);
  EXPECT_EQ(sent.age(Signature::kTimeMask - 12), 0U) << "slightly in the future";
}

}  // namespace
}  // namespace headrace::traffic
