// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/pass.h"

#include <gmock/gmock.h>

#include "vnf/functions/test_support.h"

namespace headrace::vnf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PassTest : public FunctionTest {};

const Bytes kFrame{1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 8, 0, 0x45};

TEST_F(PassTest, ForwardsBetweenNeighborsUntouchedByDefault) {
  make("pass", "{}", 4);
  EXPECT_THAT(process(0, {kFrame}), ElementsAre(SentPacket{1, kFrame}));
  EXPECT_THAT(process(1, {kFrame}), ElementsAre(SentPacket{0, kFrame}));
  EXPECT_THAT(process(3, {kFrame}), ElementsAre(SentPacket{2, kFrame}));
}

TEST_F(PassTest, KeepsTheOrderOfABurstLargerThanTheBuffer) {
  make("pass", "{}");
  std::vector<Bytes> frames;
  for (uint8_t i = 0; i < 100; ++i) {
    frames.push_back(kFrame);
    frames.back()[14] = i;
  }
  const auto sent = process(0, frames);
  ASSERT_EQ(sent.size(), frames.size());
  for (size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(sent[i].bytes, frames[i]);
}

TEST_F(PassTest, SwapsAddresses) {
  make("pass", R"({"mac": "swap"})");
  const Bytes swapped{2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 8, 0, 0x45};
  EXPECT_THAT(process(0, {kFrame}), ElementsAre(SentPacket{1, swapped}));
}

TEST_F(PassTest, SetsAddressesOfWhatLeavesAPort) {
  make("pass", R"({"mac": "set", "set": [{"port": "1", "dst": "0a:0b:0c:0d:0e:0f"}]})");
  const Bytes set{0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 2, 2, 2, 2, 2, 2, 8, 0, 0x45};
  EXPECT_THAT(process(0, {kFrame}), ElementsAre(SentPacket{1, set}));
  EXPECT_THAT(process(1, {kFrame}), ElementsAre(SentPacket{0, kFrame}));
}

TEST_F(PassTest, LeavesFramesWithoutAddressesAlone) {
  make("pass", R"({"mac": "swap"})");
  const Bytes stub{1, 2, 3};
  EXPECT_THAT(process(0, {stub}), ElementsAre(SentPacket{1, stub}));
}

TEST_F(PassTest, ReflectsAndDropsOutsideOfPairs) {
  make("pass", R"({"pairs": [["0", "0"]]})");
  EXPECT_THAT(process(0, {kFrame}), ElementsAre(SentPacket{0, kFrame}));
  EXPECT_THAT(process(1, {kFrame, kFrame}), ElementsAre());
  EXPECT_EQ(drops(DropReason::no_route), 2U);
}

TEST_F(PassTest, CountsWhatAPortDoesNotTake) {
  make("pass", "{}");
  output_->full = true;
  EXPECT_THAT(process(0, {kFrame, kFrame, kFrame}), ElementsAre());
  EXPECT_EQ(drops(DropReason::tx_queue_full), 3U);
}

TEST_F(PassTest, ReportsErrors) {
  EXPECT_THAT(config_errors("pass", "{}", 3), ElementsAre(HasSubstr("function.pairs: missing")));
  EXPECT_THAT(config_errors("pass", R"({"pairs": [["0", "9"]]})"),
              ElementsAre(HasSubstr("names a port that isn't in `ports`")));
  EXPECT_THAT(config_errors("pass", R"({"pairs": [["0", "1"], ["1", "0"]]})"),
              ElementsAre(HasSubstr("is in a pair already")));
  EXPECT_THAT(config_errors("pass", R"({"mac": "mix"})"),
              ElementsAre("function.mac: \"mix\" is none of keep, swap, set"));
  EXPECT_THAT(config_errors("pass", R"({"mca": "swap"})"),
              ElementsAre("function.mca: unknown member"));
  EXPECT_THAT(config_errors("pass", R"({"set": [{"port": "1"}]})"),
              ElementsAre("function.set[0].port: `set` needs \"mac\": \"set\""));
}

}  // namespace
}  // namespace headrace::vnf
