// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/source.h"

#include <gmock/gmock.h>

#include "vnf/functions/test_support.h"

namespace headrace::vnf {
namespace {

using ::testing::IsEmpty;

class SourceTest : public FunctionTest {};

TEST_F(SourceTest, MakesValidPacketsOfEachFlowInTurn) {
  make("source", R"({"flows": 3, "size": 100, "dst_ip": "10.1.255.255", "src_ip": "10.0.0.1"})", 1);
  const auto sent = tick();
  ASSERT_EQ(sent.size(), 32U);
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].bytes.size(), 96U) << "the size counts 4 octets of FCS";
    EXPECT_EQ(read32(sent[i].bytes, 30), 0x0a01ffffU + i % 3);
    EXPECT_TRUE(checksums_are_right(sent[i].bytes));
  }
}

TEST_F(SourceTest, KeepsToItsRate) {
  make("source", R"({"rate_pps": 10000})", 2);  // the test's clock: a packet each 100 ticks
  tick();
  size_t sent = 0;
  for (int i = 0; i < 1000; ++i) {
    now_ += 250;
    sent += tick().size();
  }
  EXPECT_NEAR(static_cast<double>(sent), 2 * 2500, 4) << "on each of two ports";
}

TEST_F(SourceTest, SendsWholeBurstsAtItsRate) {
  make("source", R"({"rate_pps": 10000, "burst": 12})", 1);
  tick();
  size_t sent = 0;
  for (int i = 0; i < 1000; ++i) {
    now_ += 250;
    const size_t now = tick().size();
    EXPECT_TRUE(now == 0 || now == 12) << now;
    sent += now;
  }
  EXPECT_NEAR(static_cast<double>(sent), 2500, 12);
}

TEST_F(SourceTest, DoesNotMakeUpForALongPause) {
  make("source", R"({"rate_pps": 10000})", 1);
  tick();
  now_ += 10 * kTscHz;
  size_t sent = 0;
  for (int i = 0; i < 10; ++i) sent += tick().size();
  EXPECT_EQ(sent, 64U);
}

TEST_F(SourceTest, StopsWhenTheBuffersAreOut) {
  make("source", "{}", 1);
  std::vector<rte_mbuf*> taken;
  while (rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get())) taken.push_back(packet);
  EXPECT_THAT(tick(), IsEmpty());
  rte_pktmbuf_free_bulk(taken.data(), static_cast<unsigned>(taken.size()));
  EXPECT_EQ(tick().size(), 32U);
}

TEST_F(SourceTest, DropsWhatComesIn) {
  make("source", R"({"rate_pps": 1})", 1);
  EXPECT_THAT(process(0, {udp_frame({}, 1, 2)}), IsEmpty());
  EXPECT_EQ(drops(DropReason::discarded), 1U);
}

class SinkTest : public FunctionTest {};

TEST_F(SinkTest, TakesEverything) {
  make("sink", "{}", 1);
  EXPECT_THAT(process(0, std::vector<Bytes>(100, udp_frame({}, 1, 2))), IsEmpty());
  EXPECT_EQ(drops(DropReason::discarded), 100U);
}

}  // namespace
}  // namespace headrace::vnf
