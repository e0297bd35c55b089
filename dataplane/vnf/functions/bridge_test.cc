// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/bridge.h"

#include <gmock/gmock.h>

#include "vnf/functions/test_support.h"

namespace headrace::vnf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr MacAddress kA{2, 0, 0, 0, 0, 0xa};
constexpr MacAddress kB{2, 0, 0, 0, 0, 0xb};

Bytes frame(const MacAddress& dst, const MacAddress& src) {
  return udp_frame({.eth_src = src, .eth_dst = dst}, 1, 2);
}

class BridgeTest : public FunctionTest {};

TEST_F(BridgeTest, FloodsTheUnknownAndForwardsTheKnown) {
  make("bridge", "{}", 3);
  const Bytes to_b = frame(kB, kA);
  EXPECT_THAT(process(0, {to_b}), UnorderedElementsAre(SentPacket{1, to_b}, SentPacket{2, to_b}));
  const Bytes to_a = frame(kA, kB);
  EXPECT_THAT(process(2, {to_a}), ElementsAre(SentPacket{0, to_a}));
  EXPECT_THAT(process(0, {to_b}), ElementsAre(SentPacket{2, to_b}));
  EXPECT_EQ(counters(), (Json{{"forwarded", 2}, {"flooded", 1}}));
}

TEST_F(BridgeTest, FollowsAnAddressThatMoves) {
  make("bridge", "{}", 3);
  process(0, {frame(kB, kA)});
  process(1, {frame(kB, kA)});
  const Bytes to_a = frame(kA, kB);
  EXPECT_THAT(process(2, {to_a}), ElementsAre(SentPacket{1, to_a}));
}

TEST_F(BridgeTest, SendsNothingBackWhereItCameFrom) {
  make("bridge", "{}", 2);
  process(0, {frame(kB, kA)});
  EXPECT_THAT(process(0, {frame(kA, kB)}), IsEmpty());
  EXPECT_EQ(drops(DropReason::discarded), 1U);
}

TEST_F(BridgeTest, ForgetsWithAgeAndKeepsOverAReload) {
  make("bridge", R"({"ageing_s": 10})", 3);
  process(0, {frame(kB, kA)});
  now_ += 9 * kTscHz;
  make("bridge", R"({"ageing_s": 10, "capacity": 64})", 3);
  EXPECT_EQ(process(2, {frame(kA, kB)}).size(), 1U);
  now_ += 2 * kTscHz;
  EXPECT_EQ(process(2, {frame(kA, kB)}).size(), 2U) << "11 s after A was seen";
}

TEST_F(BridgeTest, KeepsLinkLocalGroupsAndMalformedFramesOut) {
  make("bridge", "{}", 3);
  EXPECT_THAT(process(0, {frame({1, 0x80, 0xc2, 0, 0, 0}, kA)}), IsEmpty());
  EXPECT_EQ(drops(DropReason::denied), 1U);
  EXPECT_EQ(process(0, {frame({1, 0x80, 0xc2, 0, 0, 0x10}, kA)}).size(), 2U);
  EXPECT_THAT(process(0, {frame(kB, {3, 0, 0, 0, 0, 1}), Bytes(7)}), IsEmpty());
  EXPECT_EQ(drops(DropReason::malformed), 2U);
}

}  // namespace
}  // namespace headrace::vnf
