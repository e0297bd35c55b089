// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/cpe.h"

#include <gmock/gmock.h>

#include "vnf/functions/test_support.h"

namespace headrace::vnf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint16_t kInside = 1;  // deliberately not the first port
constexpr uint16_t kOutside = 0;
constexpr const char* kConfig = R"({"inside": "1", "outside": "0",
  "firewall": {"rules": [{"action": "deny", "proto": "udp", "dst_port": 53},
                         {"action": "allow", "from": "inside"}]},
  "nat": {"public": ["203.0.113.1"]},
  "qos": {"rate_bps": 1000000000, "classes": [{"name": "all", "weight": 1}]}})";

class CpeTest : public FunctionTest {
 protected:
  /// The packets sent within ten rounds: a queue sends at most 32 packets per round.
  std::vector<SentPacket> run(uint16_t port, const std::vector<Bytes>& frames) {
    auto sent = process(port, frames);
    for (int i = 0; i < 10; ++i) {
      now_ += kTscHz / 1000;
      for (auto& packet : tick()) sent.push_back(std::move(packet));
    }
    return sent;
  }
  static Bytes outward(uint16_t port) {
    return udp_frame({.src = "10.0.0.5", .dst = "8.8.8.8"}, 5000, port);
  }
};

TEST_F(CpeTest, TakesAFlowThroughAllStagesAndBack) {
  make("cpe", kConfig);
  const auto out = run(kInside, {outward(80)});
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].port, kOutside);
  const uint16_t mapped = read16(out[0].bytes, 34);
  EXPECT_EQ(out[0].bytes, udp_frame({.src = "203.0.113.1", .dst = "8.8.8.8"}, mapped, 80));
  const Bytes answer = udp_frame({.src = "8.8.8.8", .dst = "203.0.113.1"}, 80, mapped);
  EXPECT_THAT(
      run(kOutside, {answer}),
      ElementsAre(SentPacket{kInside, udp_frame({.src = "8.8.8.8", .dst = "10.0.0.5"}, 80, 5000)}));
}

TEST_F(CpeTest, EachStageDropsAndCountsForItself) {
  make("cpe", kConfig);
  const Bytes stray = udp_frame({.src = "8.8.8.8", .dst = "203.0.113.1"}, 80, 2000);
  EXPECT_THAT(run(kInside, {outward(53)}), IsEmpty());
  EXPECT_THAT(run(kOutside, {stray, stray}), IsEmpty());
  const auto stages = counters()["stages"];
  EXPECT_EQ(stages["firewall"]["drops"], (Json{{"denied", 1}}));
  EXPECT_EQ(stages["nat"]["drops"], (Json{{"no_translation", 2}}));
  EXPECT_EQ(stages["qos"]["drops"], Json::object());
}

TEST_F(CpeTest, AStageMayAnswerTheWayThatAPacketCame) {
  make("cpe", kConfig);
  constexpr MacAddress kPeer{2, 9, 9, 9, 9, 9};
  constexpr MacAddress kBroadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  EXPECT_THAT(run(kOutside, {arp_frame(1, kPeer, "203.0.113.9", {}, "203.0.113.1", kBroadcast)}),
              ElementsAre(SentPacket{kOutside, arp_frame(2, port_mac(kOutside), "203.0.113.1",
                                                         kPeer, "203.0.113.9", kPeer)}));
}

TEST_F(CpeTest, LosesNothingOfALargeBurst) {
  make("cpe", kConfig);
  EXPECT_EQ(run(kInside, std::vector<Bytes>(200, outward(80))).size(), 200U);
}

TEST_F(CpeTest, AReloadKeepsWhatEachStageLearnt) {
  make("cpe", kConfig);
  const auto out = run(kInside, {outward(80)});
  ASSERT_EQ(out.size(), 1U);
  make("cpe", kConfig);
  const Bytes answer =
      udp_frame({.src = "8.8.8.8", .dst = "203.0.113.1"}, 80, read16(out[0].bytes, 34));
  EXPECT_EQ(run(kOutside, {answer}).size(), 1U);
}

TEST_F(CpeTest, KnowsAFlowsProtocolBeforeItsAddressIsTranslated) {
  make("cpe", R"({"inside": "1", "outside": "0", "nat": {"public": ["203.0.113.1"]},
                  "dpi": {"rules": [{"protocol": "DNS", "action": "mark", "dscp": 10}]}})");
  const Bytes query{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 2, 'd', 'e', 0, 0, 1, 0, 1};
  const Ipv4Packet ip{.src = "10.0.0.5", .dst = "10.9.0.1"};
  std::vector<SentPacket> out;
  for (int i = 0; i < 12; ++i) out = run(kInside, {udp_frame(ip, 5000, 53, query)});
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].bytes[15], 10 << 2);
  EXPECT_TRUE(checksums_are_right(out[0].bytes));
  EXPECT_EQ(counters()["stages"]["dpi"]["protocols"]["DNS"]["flows"], 1);
}

TEST_F(CpeTest, StagesMayBeLeftOut) {
  make("cpe", R"({"inside": "1", "outside": "0", "firewall": {"default": "allow"}})");
  EXPECT_THAT(run(kInside, {outward(53)}), ElementsAre(SentPacket{kOutside, outward(53)}));
}

TEST_F(CpeTest, ReportsErrorsByTheirStage) {
  EXPECT_THAT(config_errors("cpe", R"({"inside": "1", "outside": "0", "nat": {"public": ["x"]},
                                  "firewall": {"default": "maybe"}})"),
              ElementsAre(HasSubstr("function.firewall.default: \"maybe\""),
                          HasSubstr("function.nat.public: x is not"),
                          HasSubstr("function.nat.public: a NAT needs")));
  EXPECT_THAT(config_errors("cpe", R"({"inside": "1", "outside": "0"})"),
              ElementsAre("function.firewall: give at least one of firewall, dpi, nat, qos"));
}

}  // namespace
}  // namespace headrace::vnf
