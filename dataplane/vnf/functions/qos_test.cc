// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/qos.h"

#include <gmock/gmock.h>
#include <rte_cycles.h>

#include <algorithm>

#include "vnf/functions/test_support.h"

namespace headrace::vnf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// The scheduler's clock is simulated (kTscHz). rte_meter always uses the TSC's rate, so a meter
/// sees time pass only after as many TSC cycles.
class QosTest : public FunctionTest {
 protected:
  static Bytes frame(uint8_t dscp, size_t data = 18) {
    return udp_frame({.tos = static_cast<uint8_t>(dscp << 2)}, 1, 2, Bytes(data));
  }
  static uint8_t dscp_of(const SentPacket& packet) { return packet.bytes[15] >> 2; }
  /// Runs for a time on the scheduler's clock, in rounds of 100 us, and returns the packets sent.
  std::vector<SentPacket> run(double seconds) {
    std::vector<SentPacket> all;
    const uint64_t end = now_ + static_cast<uint64_t>(seconds * kTscHz);
    while (now_ < end) {
      now_ += kTscHz / 10'000;
      for (auto& packet : tick()) all.push_back(std::move(packet));
    }
    return all;
  }
  /// Processes frames and returns the packets sent within a time.
  std::vector<SentPacket> run_with(uint16_t port, const std::vector<Bytes>& frames,
                                   double seconds) {
    auto all = process(port, frames);
    for (auto& packet : run(seconds)) all.push_back(std::move(packet));
    return all;
  }
};

TEST_F(QosTest, StrictPrioritiesGoFirst) {
  make("qos", R"({"rate_bps": 10000000, "classes": [
      {"name": "low", "priority": 5}, {"name": "high", "dscp": [46], "priority": 0}],
      "default": "low"})");
  std::vector<Bytes> frames(20, frame(0, 1000));
  frames.resize(40, frame(46, 1000));
  const auto sent = run_with(0, frames, 0.1);
  ASSERT_THAT(sent, SizeIs(40));
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(dscp_of(sent[i]), 46) << i;
  for (size_t i = 20; i < 40; ++i) EXPECT_EQ(dscp_of(sent[i]), 0) << i;
  EXPECT_EQ(sent[0].port, 1);
}

TEST_F(QosTest, WeightsShareWhatIsLeft) {
  make("qos", R"({"rate_bps": 100000000, "classes": [
      {"name": "one", "dscp": [8], "weight": 1}, {"name": "four", "dscp": [16], "weight": 4}]})");
  std::vector<Bytes> frames;
  for (int i = 0; i < 200; ++i) {
    frames.push_back(frame(8, 1000));
    frames.push_back(frame(16, 1000));
  }
  const auto sent = run_with(0, frames, 0.1);
  ASSERT_THAT(sent, SizeIs(400)) << "nothing is lost";
  const auto fours = std::count_if(sent.begin(), sent.begin() + 200,
                                   [](const auto& packet) { return dscp_of(packet) == 16; });
  EXPECT_NEAR(static_cast<double>(fours), 160, 10);
}

TEST_F(QosTest, ShapesToTheRate) {
  // 1052 octets with Ethernet's 24 at 42.08 Mbit/s: a packet each 0.2 ms.
  make("qos", R"({"rate_bps": 42080000, "queue_packets": 1024,
                  "classes": [{"name": "all", "weight": 1}]})");
  const std::vector<Bytes> frames(1000, frame(0, 986));
  EXPECT_NEAR(static_cast<double>(run_with(0, frames, 0.1).size()), 500, 7);
  EXPECT_NEAR(static_cast<double>(run(0.05).size()), 250, 2);
}

TEST_F(QosTest, APauseEarnsNoMoreThanTheBucketHolds) {
  make("qos", R"({"rate_bps": 42080000, "classes": [{"name": "all", "weight": 1}]})");
  run_with(0, {frame(0, 986)}, 0.01);
  now_ += 10 * kTscHz;
  const auto at_once = process(0, std::vector<Bytes>(100, frame(0, 986))).size() + tick().size();
  EXPECT_LE(at_once, 6U) << "5.26 kB: the octets of a millisecond";
  run(0.1);
}

TEST_F(QosTest, AFullQueueDropsTheRest) {
  make("qos", R"({"rate_bps": 80000, "queue_packets": 64,
                  "classes": [{"name": "all", "weight": 1}]})");
  process(0, std::vector<Bytes>(200, frame(0, 1400)));
  EXPECT_GE(drops(DropReason::queue_full), 130U);
  EXPECT_LE(drops(DropReason::queue_full), 136U);
  EXPECT_GE(buffers_in_use(),
            60U);  // the fixture checks that none is in use after the function's destruction
}

constexpr const char* kMetered = R"({"rate_bps": 1000000000, "classes": [
    {"name": "metered", "dscp": [46], "weight": 1,
     "meter": {"cir_bps": 80000, "cbs": 1000, "pir_bps": 160000, "pbs": 2000, "yellow": 10}},
    {"name": "rest", "weight": 1}]})";

TEST_F(QosTest, MetersInThreeColours) {
  make("qos", kMetered);
  // 100 octets each: 10 green by the committed burst, 10 more yellow by the peak burst, then red.
  auto sent = run_with(0, std::vector<Bytes>(30, frame(46, 58)), 0.001);
  ASSERT_THAT(sent, SizeIs(20));
  size_t green = 0;
  for (const auto& packet : sent) {
    EXPECT_TRUE(checksums_are_right(packet.bytes));
    green += dscp_of(packet) == 46 ? 1 : 0;
  }
  EXPECT_EQ(green, 10U);
  EXPECT_EQ(drops(DropReason::policed), 10U);
  EXPECT_EQ(counters()["classes"]["metered"],
            (Json{{"queued", 20}, {"policed", 10}, {"remarked", 10}}));
  now_ += rte_get_tsc_hz() / 20;  // 50 ms: 500 octets committed, 1000 of peak
  sent = run_with(0, std::vector<Bytes>(30, frame(46, 58)), 0.001);
  EXPECT_THAT(sent, SizeIs(10));
  EXPECT_THAT(run_with(0, {frame(0)}, 0.001), SizeIs(1)) << "others aren't metered";
}

TEST_F(QosTest, DirectionsHaveMetersOfTheirOwn) {
  make("qos", kMetered);
  run_with(0, std::vector<Bytes>(30, frame(46, 58)), 0.001);
  const uint64_t before = drops(DropReason::policed);
  EXPECT_THAT(run_with(1, std::vector<Bytes>(20, frame(46, 58)), 0.001), SizeIs(20));
  EXPECT_EQ(drops(DropReason::policed), before);
}

TEST_F(QosTest, AReloadEmptiesTheOldQueuesFirst) {
  constexpr const char* kSlow = R"({"rate_bps": 20000000, "classes": [
      {"name": "all", "weight": 1}]})";
  make("qos", kSlow);
  auto sent = process(0, std::vector<Bytes>(40, frame(1, 1000)));
  make("qos", kSlow);
  for (auto& packet : run_with(0, std::vector<Bytes>(10, frame(2, 1000)), 0.1)) {
    sent.push_back(std::move(packet));
  }
  ASSERT_THAT(sent, SizeIs(50));
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(dscp_of(sent[i]), i < 40 ? 1 : 2) << i;
}

TEST_F(QosTest, ReportsErrors) {
  EXPECT_THAT(
      config_errors("qos", R"({"rate_bps": 1000000, "queue_packets": 100, "classes": [
      {"name": "a", "dscp": [64], "priority": 1}, {"name": "b"},
      {"name": "c", "weight": 0}, {"name": "d", "weight": 1, "meter":
        {"cir_bps": 800, "pir_bps": 80, "cbs": 100, "pbs": 100, "yellow": 99}}],
      "default": "z"})"),
      ElementsAre(HasSubstr("queue_packets: not a power"), HasSubstr("classes[0].dscp: 64"),
                  HasSubstr("classes[1].priority: give either"),
                  HasSubstr("classes[2].weight: 0 is not"), HasSubstr("meter.pir_bps: less"),
                  HasSubstr("meter.yellow: 99"), HasSubstr("default: z is no class")));
}

}  // namespace
}  // namespace headrace::vnf
