// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/bng.h"

#include <gmock/gmock.h>

#include "vnf/functions/test_support.h"

namespace headrace::vnf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint16_t kAccess = 0;
constexpr uint16_t kCore = 1;
constexpr MacAddress kHome{2, 0x33, 0, 0, 0, 1};
constexpr MacAddress kCoreRouter{2, 0xcc, 0, 0, 0, 1};
constexpr MacAddress kBroadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
constexpr const char* kConfig = R"({"access": "0", "core": "1", "core_address": "192.0.2.1",
  "tunnel_remote": "192.0.2.9", "core_next_hop_mac": "02:cc:00:00:00:01",
  "subscribers": [{"s_vid": 100, "c_vid": 7, "count": 3, "address": "100.64.0.10"},
                  {"s_vid": 101, "c_vid": 7, "address": "100.64.1.10"}]})";

Bytes tagged(const Bytes& frame, uint16_t s_vid, uint16_t c_vid, uint16_t s_tpid = 0x88a8) {
  Bytes result(frame.begin(), frame.begin() + 12);
  for (const uint16_t word : {s_tpid, s_vid, uint16_t{0x8100}, c_vid}) {
    result.push_back(static_cast<uint8_t>(word >> 8));
    result.push_back(static_cast<uint8_t>(word));
  }
  result.insert(result.end(), frame.begin() + 12, frame.end());
  return result;
}

/// The inner packet from or to a subscriber, as an untagged frame.
Bytes inner(const std::string& src, const std::string& dst, uint8_t ttl, const MacAddress& eth_src,
            const MacAddress& eth_dst) {
  return udp_frame({.eth_src = eth_src, .eth_dst = eth_dst, .src = src, .dst = dst, .ttl = ttl},
                   1000, 2000, Bytes(21, 0x5a));
}

Bytes tunnelled(const Bytes& frame, uint32_t key, const std::string& src, const std::string& dst,
                const MacAddress& eth_src, const MacAddress& eth_dst) {
  Ipv4Packet outer{.eth_src = eth_src,
                   .eth_dst = eth_dst,
                   .src = src,
                   .dst = dst,
                   .proto = 47,
                   .fragment = 0x4000};
  outer.payload = {0x20, 0, 8, 0};
  for (int shift = 24; shift >= 0; shift -= 8) {
    outer.payload.push_back(static_cast<uint8_t>(key >> shift));
  }
  outer.payload.insert(outer.payload.end(), frame.begin() + 14, frame.end());
  return outer.build();
}

class BngTest : public FunctionTest {
 protected:
  BngTest() { make("bng", kConfig); }

  static Bytes upstream(const std::string& src = "100.64.0.11", uint8_t ttl = 64) {
    return inner(src, "8.8.8.8", ttl, kHome, port_mac(kAccess));
  }
  static Bytes downstream(uint32_t key, const std::string& dst, uint8_t ttl = 64) {
    return tunnelled(inner("8.8.8.8", dst, ttl, {}, {}), key, "192.0.2.9", "192.0.2.1", kCoreRouter,
                     port_mac(kCore));
  }
};

TEST_F(BngTest, CarriesASubscribersPacketInGre) {
  const Bytes expected = tunnelled(upstream("100.64.0.11", 63), 100 << 12 | 8, "192.0.2.1",
                                   "192.0.2.9", port_mac(kCore), kCoreRouter);
  for (const uint16_t s_tpid : {0x88a8, 0x8100}) {
    EXPECT_THAT(process(kAccess, {tagged(upstream(), 100, 8, s_tpid)}),
                ElementsAre(SentPacket{kCore, expected}));
  }
}

TEST_F(BngTest, LeavesEthernetPaddingOutOfTheTunnel) {
  Bytes padded = tagged(upstream(), 100, 8);
  padded.resize(padded.size() + 9);
  const auto sent = process(kAccess, {padded});
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].bytes.size(), 14U + read16(sent[0].bytes, 16));
}

TEST_F(BngTest, BringsAnAnswerBackToWhoItIsFor) {
  process(kAccess, {tagged(upstream(), 100, 8)});
  EXPECT_THAT(
      process(kCore, {downstream(100 << 12 | 8, "100.64.0.11")}),
      ElementsAre(SentPacket{
          kAccess, tagged(inner("8.8.8.8", "100.64.0.11", 63, port_mac(kAccess), kHome), 100, 8)}));
  EXPECT_EQ(counters(), (Json{{"upstream", 1}, {"downstream", 1}, {"subscribers_seen", 1}}));
}

TEST_F(BngTest, KeepsSubscribersApart) {
  process(kAccess, {tagged(upstream(), 100, 8)});
  EXPECT_THAT(
      process(kAccess, {tagged(upstream("100.64.0.12"), 100, 8),  // another subscriber's address
                        tagged(upstream(), 100, 50),              // unassigned tags
                        tagged(upstream(), 200, 8)}),
      IsEmpty());
  EXPECT_EQ(drops(DropReason::denied), 3U);
  EXPECT_THAT(process(kCore, {downstream(100 << 12 | 8,
                                         "100.64.0.12"),  // not the address of the key's subscriber
                              downstream(100 << 12 | 50, "100.64.0.11"),  // an unassigned key
                              downstream(1 << 24 | 100 << 12 | 8, "100.64.0.11")}),
              IsEmpty());
  EXPECT_EQ(drops(DropReason::denied), 6U);
  EXPECT_THAT(process(kCore, {downstream(101 << 12 | 7, "100.64.1.10")}), IsEmpty());
  EXPECT_EQ(drops(DropReason::no_neighbor), 1U) << "it hasn't sent anything yet";
}

TEST_F(BngTest, AnswersArpForTheGatewayWithinTheTags) {
  const Bytes request = arp_frame(1, kHome, "100.64.0.11", {}, "100.64.0.1", kBroadcast);
  const Bytes reply = arp_frame(2, port_mac(kAccess), "100.64.0.1", kHome, "100.64.0.11", kHome);
  EXPECT_THAT(process(kAccess, {tagged(request, 100, 8)}),
              ElementsAre(SentPacket{kAccess, tagged(reply, 100, 8)}));
  const Bytes probe = arp_frame(1, kHome, "100.64.0.11", {}, "100.64.0.11", kBroadcast);
  const Bytes liar = arp_frame(1, kHome, "100.64.0.12", {}, "100.64.0.1", kBroadcast);
  EXPECT_THAT(process(kAccess, {tagged(probe, 100, 8), tagged(liar, 100, 8)}), IsEmpty());
}

TEST_F(BngTest, AnswersArpOnTheCore) {
  const Bytes request = arp_frame(1, kCoreRouter, "192.0.2.2", {}, "192.0.2.1", kBroadcast);
  EXPECT_THAT(process(kCore, {request}),
              ElementsAre(SentPacket{kCore, arp_frame(2, port_mac(kCore), "192.0.2.1", kCoreRouter,
                                                      "192.0.2.2", kCoreRouter)}));
}

TEST_F(BngTest, CountsHops) {
  EXPECT_THAT(process(kAccess, {tagged(upstream("100.64.0.11", 1), 100, 8)}), IsEmpty());
  EXPECT_THAT(process(kCore, {downstream(100 << 12 | 8, "100.64.0.11", 1)}), IsEmpty());
  EXPECT_EQ(drops(DropReason::ttl_expired), 2U);
}

TEST_F(BngTest, DropsWhatIsNoTunnelOfOurs) {
  process(kAccess, {tagged(upstream(), 100, 8)});
  const Bytes good = downstream(100 << 12 | 8, "100.64.0.11");
  Bytes other_remote = tunnelled(inner("8.8.8.8", "100.64.0.11", 64, {}, {}), 100 << 12 | 8,
                                 "192.0.2.8", "192.0.2.1", kCoreRouter, port_mac(kCore));
  Bytes with_checksum = good;
  with_checksum[34] = 0xa0;
  Bytes bad_inner = good;
  bad_inner[42 + 10] ^= 1;
  EXPECT_THAT(process(kCore, {other_remote, with_checksum, bad_inner, Bytes(3)}), IsEmpty());
  EXPECT_EQ(drops(DropReason::not_for_us), 1U);
  EXPECT_EQ(drops(DropReason::unsupported), 1U);
  EXPECT_EQ(drops(DropReason::malformed), 2U);
  EXPECT_THAT(process(kAccess, {upstream(), Bytes(21)}), IsEmpty());
  EXPECT_EQ(drops(DropReason::not_for_us), 2U) << "an untagged frame";
}

TEST_F(BngTest, AReloadKeepsWhereSubscribersAre) {
  process(kAccess, {tagged(upstream(), 100, 8)});
  make("bng", kConfig);
  EXPECT_EQ(process(kCore, {downstream(100 << 12 | 8, "100.64.0.11")}).size(), 1U);
}

TEST_F(BngTest, ReportsErrors) {
  EXPECT_THAT(config_errors("bng", R"({"access": "0", "core": "1", "core_address": "192.0.2.1",
      "tunnel_remote": "192.0.2.9", "core_next_hop_mac": "02:cc:00:00:00:01", "subscribers": [
        {"s_vid": 0, "c_vid": 7, "address": "100.64.0.10"},
        {"s_vid": 1, "c_vid": 4000, "count": 200, "address": "100.64.0.10"},
        {"s_vid": 2, "c_vid": 1, "count": 5, "address": "100.64.0.10"},
        {"s_vid": 2, "c_vid": 5, "address": "100.64.0.10"}]})"),
              ElementsAre(HasSubstr("subscribers[0].s_vid: 0 is not"),
                          HasSubstr("subscribers[1].count: C-VIDs"),
                          HasSubstr("subscribers[3].c_vid: these tags")));
}

}  // namespace
}  // namespace headrace::vnf
