// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/router.h"

#include <gmock/gmock.h>

#include "vnf/functions/test_support.h"

namespace headrace::vnf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr MacAddress kBroadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
constexpr MacAddress kGatewayMac{2, 0xaa, 0, 0, 0, 2};
constexpr MacAddress kHostMac{2, 0xbb, 0, 0, 0, 9};

/// Port 0: 10.0.0.1/24; port 1: 10.1.0.1/24 with a fixed gateway 10.1.0.2 and one to resolve,
/// 10.1.0.3.
constexpr const char* kConfig = R"({
  "interfaces": [{"port": "0", "address": "10.0.0.1/24"}, {"port": "1", "address": "10.1.0.1/24"}],
  "routes": [{"prefix": "20.0.0.0/8", "via": "10.1.0.2"},
             {"prefix": "20.1.0.0/16", "via": "10.1.0.3"},
             {"prefix": "20.1.2.128/25", "via": "10.1.0.2"}],
  "neighbors": [{"address": "10.1.0.2", "mac": "02:aa:00:00:00:02"},
                 {"address": "10.0.0.9", "mac": "02:09:09:09:09:09"}],
  "arp_timeout_s": 60, "icmp_errors_per_s": 10})";

class RouterTest : public FunctionTest {
 protected:
  static Bytes to(const std::string& dst, uint8_t ttl = 64) {
    return udp_frame({.dst = dst, .ttl = ttl}, 1000, 2000, Bytes(18));
  }
  void advance(double seconds) { now_ += static_cast<uint64_t>(seconds * kTscHz); }
};

TEST_F(RouterTest, RewritesAddressesAndTtl) {
  make("router", kConfig);
  Ipv4Packet expected{.eth_src = port_mac(1), .eth_dst = kGatewayMac, .dst = "20.0.0.5", .ttl = 63};
  EXPECT_THAT(process(0, {to("20.0.0.5")}),
              ElementsAre(SentPacket{1, udp_frame(expected, 1000, 2000, Bytes(18))}));
}

TEST_F(RouterTest, TtlDecrementKeepsTheChecksumRightForEveryTtl) {
  make("router", kConfig);
  for (unsigned ttl = 2; ttl < 256; ++ttl) {
    for (const uint16_t id : {0, 1, 0xfeff, 0xffff}) {
      Ipv4Packet ip{.dst = "20.0.0.5", .ttl = static_cast<uint8_t>(ttl), .id = id};
      const auto sent = process(0, {udp_frame(ip, 1, 2)});
      ASSERT_EQ(sent.size(), 1U);
      EXPECT_EQ(sent[0].bytes[22], ttl - 1);
      EXPECT_TRUE(checksums_are_right(sent[0].bytes)) << "ttl " << ttl << " id " << id;
    }
  }
}

TEST_F(RouterTest, TheLongestPrefixWins) {
  make("router", kConfig);
  const auto by_gateway = process(0, {to("20.1.2.200"), to("20.2.0.1")});
  ASSERT_EQ(by_gateway.size(), 2U);
  const auto unresolved = process(0, {to("20.1.2.1")});  // via 10.1.0.3, which isn't resolved
  ASSERT_EQ(unresolved.size(), 1U);
  EXPECT_EQ(unresolved[0].bytes, arp_frame(1, port_mac(1), "10.1.0.1", {}, "10.1.0.3", kBroadcast));
}

TEST_F(RouterTest, ResolvesAHostAndSendsWhatWaited) {
  make("router", kConfig);
  auto sent = process(0, {to("10.1.0.77"), to("10.1.0.77")});
  EXPECT_THAT(sent, ElementsAre(SentPacket{
                        1, arp_frame(1, port_mac(1), "10.1.0.1", {}, "10.1.0.77", kBroadcast)}));
  sent = process(1, {arp_frame(2, kHostMac, "10.1.0.77", port_mac(1), "10.1.0.1", port_mac(1))});
  Ipv4Packet expected{.eth_src = port_mac(1), .eth_dst = kHostMac, .dst = "10.1.0.77", .ttl = 63};
  const SentPacket packet{1, udp_frame(expected, 1000, 2000, Bytes(18))};
  EXPECT_THAT(sent, ElementsAre(packet, packet));
  EXPECT_THAT(process(0, {to("10.1.0.77")}), ElementsAre(packet));
}

TEST_F(RouterTest, GivesUpOnAHostAfterThreeRequestsAndSaysSo) {
  make("router", kConfig);
  EXPECT_EQ(process(0, {to("10.1.0.77")}).size(), 1U);
  advance(1.1);
  EXPECT_EQ(tick().size(), 1U);
  advance(1.1);
  EXPECT_EQ(tick().size(), 1U);
  advance(1.1);
  const auto sent = tick();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].port, 0);
  EXPECT_EQ(sent[0].bytes[34], 3) << "destination unreachable";
  EXPECT_EQ(sent[0].bytes[35], 1) << "host";
  EXPECT_EQ(drops(DropReason::no_neighbor), 1U);
  advance(1.1);
  EXPECT_THAT(tick(), IsEmpty());
}

TEST_F(RouterTest, KeepsTheLatestPacketsWhileItWaits) {
  make("router", kConfig);
  process(0, std::vector<Bytes>(20, to("10.1.0.77")));
  EXPECT_EQ(drops(DropReason::no_neighbor), 12U);
  EXPECT_EQ(process(1, {arp_frame(2, kHostMac, "10.1.0.77", port_mac(1), "10.1.0.1", port_mac(1))})
                .size(),
            8U);
}

TEST_F(RouterTest, AsksAgainWhenANeighborIsOldAndForgetsItWithoutAReply) {
  make("router", kConfig);
  process(1, {arp_frame(1, kHostMac, "10.1.0.77", {}, "10.1.0.1", kBroadcast)});
  advance(61);
  EXPECT_THAT(tick(), ElementsAre(SentPacket{
                          1, arp_frame(1, port_mac(1), "10.1.0.1", {}, "10.1.0.77", kBroadcast)}));
  EXPECT_EQ(process(0, {to("10.1.0.77")}).size(), 1U) << "still used meanwhile";
  for (int i = 0; i < 3; ++i) {
    advance(1.1);
    tick();
  }
  const auto sent = process(0, {to("10.1.0.77")});
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(read16(sent[0].bytes, 12), 0x0806) << "requested again";
}

TEST_F(RouterTest, AnswersArpForItsOwnAddressOnly) {
  make("router", kConfig);
  EXPECT_THAT(process(0, {arp_frame(1, kHostMac, "10.0.0.5", {}, "10.0.0.1", kBroadcast)}),
              ElementsAre(SentPacket{
                  0, arp_frame(2, port_mac(0), "10.0.0.1", kHostMac, "10.0.0.5", kHostMac)}));
  EXPECT_THAT(process(0, {arp_frame(1, kHostMac, "10.0.0.5", {}, "10.0.0.6", kBroadcast),
                          arp_frame(1, kHostMac, "99.0.0.5", {}, "10.0.0.1", kBroadcast)}),
              IsEmpty());
}

TEST_F(RouterTest, AnswersEcho) {
  make("router", kConfig);
  Ipv4Packet request{
      .dst = "10.0.0.1", .proto = 1, .payload = icmp(8, 0, 0x12340001, Bytes(33, 7))};
  Ipv4Packet reply{.eth_src = port_mac(0),
                   .eth_dst = {2, 9, 9, 9, 9, 9},
                   .src = "10.0.0.1",
                   .dst = "10.0.0.9",
                   .proto = 1,
                   .payload = icmp(0, 0, 0x12340001, Bytes(33, 7))};
  EXPECT_THAT(process(0, {request.build()}), ElementsAre(SentPacket{0, reply.build()}));
  request.payload[10] ^= 1;  // a wrong ICMP checksum
  EXPECT_THAT(process(0, {request.build()}), IsEmpty());
}

TEST_F(RouterTest, ReportsAnExpiredTtlWithThePacketQuoted) {
  make("router", kConfig);
  const Bytes original = to("20.0.0.5", 1);
  const auto sent = process(0, {original});
  ASSERT_EQ(sent.size(), 1U);
  const Bytes& error = sent[0].bytes;
  EXPECT_EQ(sent[0].port, 0);
  EXPECT_TRUE(checksums_are_right(error));
  EXPECT_EQ(error[34], 11);
  EXPECT_EQ(read32(error, 26), 0x0a000001U) << "from the interface that the packet came in on";
  EXPECT_EQ(read32(error, 30), 0x0a000009U);
  EXPECT_EQ(Bytes(error.begin() + 42, error.end()), Bytes(original.begin() + 14, original.end()));
  EXPECT_EQ(drops(DropReason::ttl_expired), 1U);
}

TEST_F(RouterTest, ReportsWhatItCannotReachOrDoesNotServe) {
  make("router", kConfig);
  auto sent = process(0, {to("99.0.0.1"), to("10.0.0.1")});
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].bytes[34], 3);
  EXPECT_EQ(sent[0].bytes[35], 0) << "network unreachable";
  EXPECT_EQ(sent[1].bytes[34], 3);
  EXPECT_EQ(sent[1].bytes[35], 3) << "port unreachable";
}

TEST_F(RouterTest, TellsTheMtuToWhoForbidsFragments) {
  make("router", kConfig);
  Ipv4Packet ip{.dst = "20.0.0.5", .fragment = 0x4000};
  const auto sent = process(0, {udp_frame(ip, 1, 2, Bytes(1600))});
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].bytes[35], 4);
  EXPECT_EQ(read16(sent[0].bytes, 40), 1500);
  EXPECT_EQ(read16(sent[0].bytes, 16), 576) << "RFC 1812: at most 576 octets";
  EXPECT_TRUE(checksums_are_right(sent[0].bytes));
}

TEST_F(RouterTest, IsSilentWhereRfc1812WantsIt) {
  make("router", kConfig);
  Ipv4Packet from_nobody{.src = "0.0.0.0", .dst = "99.0.0.1"};
  Ipv4Packet to_multicast{.dst = "224.0.0.5"};
  Ipv4Packet later_fragment{.dst = "99.0.0.1", .fragment = 5};
  Ipv4Packet icmp_error{.dst = "99.0.0.1", .proto = 1, .payload = icmp(3, 0, 0, Bytes(28))};
  EXPECT_THAT(process(0, {udp_frame(from_nobody, 1, 2), udp_frame(to_multicast, 1, 2),
                          udp_frame(later_fragment, 1, 2), icmp_error.build()}),
              IsEmpty());
  EXPECT_EQ(drops(DropReason::no_route), 4U);
}

TEST_F(RouterTest, LimitsTheRateOfErrors) {
  make("router", kConfig);
  EXPECT_EQ(process(0, std::vector<Bytes>(30, to("99.0.0.1"))).size(), 10U);
  advance(0.5);
  EXPECT_EQ(process(0, std::vector<Bytes>(30, to("99.0.0.1"))).size(), 5U);
}

TEST_F(RouterTest, DropsWhatIsMalformedOrForOthers) {
  make("router", kConfig);
  Bytes bad_checksum = to("20.0.0.5");
  bad_checksum[24] ^= 1;
  Bytes version_6 = to("20.0.0.5");
  version_6[14] = 0x65;
  Bytes too_long = to("20.0.0.5");
  too_long.resize(40);
  const Bytes runt(5);
  EXPECT_THAT(process(0, {bad_checksum, version_6, too_long, runt}), IsEmpty());
  EXPECT_EQ(drops(DropReason::malformed), 4U);
  Ipv4Packet other{.eth_dst = {2, 7, 7, 7, 7, 7}, .dst = "20.0.0.5"};
  Ipv4Packet broadcast{.eth_dst = kBroadcast, .dst = "20.0.0.5"};
  EXPECT_THAT(process(0, {udp_frame(other, 1, 2), udp_frame(broadcast, 1, 2)}), IsEmpty());
  EXPECT_EQ(drops(DropReason::not_for_us), 2U);
  EXPECT_THAT(process(0, {to("10.1.0.255")}), IsEmpty());
  EXPECT_EQ(drops(DropReason::denied), 1U) << "a directed broadcast";
}

TEST_F(RouterTest, AReloadKeepsWhatWasLearntAndWhatWaits) {
  make("router", kConfig);
  process(1, {arp_frame(1, kHostMac, "10.1.0.77", {}, "10.1.0.1", kBroadcast)});
  process(0, {to("10.1.0.88")});
  make("router", kConfig);
  const auto known = process(0, {to("10.1.0.77")});
  ASSERT_EQ(known.size(), 1U);
  EXPECT_EQ(read16(known[0].bytes, 12), 0x0800);
  EXPECT_EQ(process(1, {arp_frame(2, kHostMac, "10.1.0.88", port_mac(1), "10.1.0.1", port_mac(1))})
                .size(),
            1U);
}

TEST_F(RouterTest, ReportsErrors) {
  EXPECT_THAT(config_errors("router", "{}"),
              ElementsAre("function.interfaces: a router needs at least one"));
  EXPECT_THAT(
      config_errors("router", R"({"interfaces": [{"port": "0", "address": "10.0.0.1"}]})"),
      ::testing::Contains(HasSubstr("function.interfaces[0].address: \"10.0.0.1\" is not")));
  EXPECT_THAT(config_errors("router", R"({"interfaces": [{"port": "0", "address": "10.0.0.1/24"}],
                                     "routes": [{"prefix": "20.0.0.0/8", "via": "30.0.0.1"}]})"),
              ElementsAre("function.routes[0].via: no interface's subnet holds it"));
  EXPECT_THAT(
      config_errors("router", R"({"interfaces": [{"port": "0", "address": "10.0.0.1/24"},
                                                    {"port": "1", "address": "10.0.0.129/25"}]})"),
      ElementsAre("function.interfaces[1].address: its subnet overlaps another interface's"));
}

}  // namespace
}  // namespace headrace::vnf
