// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/nat.h"

#include <gmock/gmock.h>

#include <set>

#include "vnf/functions/test_support.h"

namespace headrace::vnf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint16_t kInside = 0;
constexpr uint16_t kOutside = 1;
constexpr const char* kPublic = "203.0.113.1";
constexpr uint32_t kPublicNumber = 0xcb007101;
constexpr const char* kConfig = R"({"inside": "0", "outside": "1", "public": ["203.0.113.1"],
  "timeouts": {"udp_s": 10, "icmp_s": 5, "tcp_established_s": 100, "tcp_transitory_s": 20}})";

class NatTest : public FunctionTest {
 protected:
  void advance(double seconds) {
    // In steps, because a full sweep of the table takes a second.
    for (int i = 0; i < 2000; ++i) {
      now_ += static_cast<uint64_t>(seconds * kTscHz / 2000);
      tick();
    }
  }
  /// Processes one frame; returns the one frame that must have been sent on `out`.
  Bytes one(uint16_t in, const Bytes& frame, uint16_t out) {
    const auto sent = process(in, {frame});
    EXPECT_EQ(sent.size(), 1U);
    if (sent.size() != 1) return Bytes(64);
    EXPECT_EQ(sent[0].port, out);
    EXPECT_TRUE(checksums_are_right(sent[0].bytes));
    return sent[0].bytes;
  }
  static Bytes from_host(const std::string& host, uint16_t port,
                         const std::string& peer = "8.8.8.8") {
    return udp_frame({.src = host, .dst = peer}, port, 53, Bytes(5, 0xab));
  }
  static Bytes to_public(uint16_t port, const std::string& peer = "8.8.8.8") {
    return udp_frame({.src = peer, .dst = kPublic}, 53, port, Bytes(5, 0xcd));
  }
};

TEST_F(NatTest, TranslatesAFlowThereAndBack) {
  make("nat", kConfig);
  const Bytes out = one(kInside, from_host("10.0.0.5", 5000), kOutside);
  const uint16_t mapped = read16(out, 34);
  EXPECT_GE(mapped, 1024);
  EXPECT_EQ(out, udp_frame({.src = kPublic, .dst = "8.8.8.8"}, mapped, 53, Bytes(5, 0xab)));
  EXPECT_EQ(one(kOutside, to_public(mapped), kInside),
            udp_frame({.src = "8.8.8.8", .dst = "10.0.0.5"}, 53, 5000, Bytes(5, 0xcd)));
}

TEST_F(NatTest, MapsAnEndpointOnceWhoeverItTalksTo) {
  make("nat", kConfig);
  const auto port_of = [&](const Bytes& frame) {
    return read16(one(kInside, frame, kOutside), 34);
  };
  const uint16_t mapped = port_of(from_host("10.0.0.5", 5000));
  EXPECT_EQ(port_of(from_host("10.0.0.5", 5000, "1.1.1.1")), mapped);
  EXPECT_NE(port_of(from_host("10.0.0.5", 5001)), mapped);
  EXPECT_NE(port_of(from_host("10.0.0.6", 5000)), mapped);
  one(kOutside, to_public(mapped, "9.9.9.9"), kInside);  // filtering is endpoint-independent
  EXPECT_EQ(counters()["mappings_made"], 3);
}

TEST_F(NatTest, RefusesWhatNobodyAskedFor) {
  make("nat", kConfig);
  EXPECT_THAT(process(kOutside, {to_public(2000), to_public(80)}), IsEmpty());
  EXPECT_EQ(drops(DropReason::no_translation), 2U);
}

TEST_F(NatTest, LeavesAnAbsentUdpChecksumAbsent) {
  make("nat", kConfig);
  Bytes frame = from_host("10.0.0.5", 5000);
  frame[40] = frame[41] = 0;
  EXPECT_EQ(read16(one(kInside, frame, kOutside), 40), 0);
}

TEST_F(NatTest, TranslatesTcpAndEcho) {
  make("nat", kConfig);
  const Bytes syn =
      one(kInside, tcp_frame({.src = "10.0.0.5", .dst = "8.8.8.8"}, 5000, 80, 0x02), kOutside);
  EXPECT_EQ(read32(syn, 26), kPublicNumber);
  Ipv4Packet echo{.src = "10.0.0.5", .dst = "8.8.8.8", .proto = 1};
  echo.payload = icmp(8, 0, 0x12340007, Bytes(9, 1));
  const Bytes out = one(kInside, echo.build(), kOutside);
  Ipv4Packet reply{.src = "8.8.8.8", .dst = kPublic, .proto = 1};
  reply.payload = icmp(0, 0, uint32_t{read16(out, 38)} << 16 | 7, Bytes(9, 1));
  const Bytes in = one(kOutside, reply.build(), kInside);
  EXPECT_EQ(read16(in, 38), 0x1234) << "the host's identifier is restored";
  EXPECT_EQ(read32(in, 30), 0x0a000005U);
}

TEST_F(NatTest, RunsOutOfPortsAndGetsThemBack) {
  make("nat", R"({"inside": "0", "outside": "1", "public": ["203.0.113.1"],
                  "ports": [3000, 3003], "timeouts": {"udp_s": 10}})");
  std::set<uint16_t> ports;
  for (uint16_t i = 0; i < 4; ++i) {
    ports.insert(read16(one(kInside, from_host("10.0.0.5", 5000 + i), kOutside), 34));
  }
  EXPECT_EQ(ports, (std::set<uint16_t>{3000, 3001, 3002, 3003}));
  EXPECT_THAT(process(kInside, {from_host("10.0.0.5", 6000)}), IsEmpty());
  EXPECT_EQ(drops(DropReason::ports_exhausted), 1U);
  one(kInside, tcp_frame({.src = "10.0.0.5", .dst = "8.8.8.8"}, 6000, 80, 2), kOutside);
  advance(12);
  one(kInside, from_host("10.0.0.5", 6000), kOutside);
}

TEST_F(NatTest, OutsidersDoNotKeepAMappingAlive) {
  make("nat", kConfig);
  const uint16_t mapped = read16(one(kInside, from_host("10.0.0.5", 5000), kOutside), 34);
  for (int i = 0; i < 6; ++i) {
    process(kOutside, {to_public(mapped)});
    advance(2);
  }
  EXPECT_THAT(process(kOutside, {to_public(mapped)}), IsEmpty());
  EXPECT_EQ(counters()["mappings"], 0);
}

TEST_F(NatTest, AnEstablishedConnectionLivesLongerThanAHalfOpenOne) {
  make("nat", kConfig);
  const auto open = [&](uint16_t port) {
    return read16(
        one(kInside, tcp_frame({.src = "10.0.0.5", .dst = "8.8.8.8"}, port, 80, 0x02), kOutside),
        34);
  };
  const auto answer = [&](uint16_t port, uint8_t flags) {
    return process(kOutside, {tcp_frame({.src = "8.8.8.8", .dst = kPublic}, 80, port, flags)})
        .size();
  };
  const uint16_t half = open(5000);
  const uint16_t whole = open(5001);
  const uint16_t reset = open(5002);
  EXPECT_EQ(answer(whole, 0x12), 1U);
  EXPECT_EQ(answer(reset, 0x12), 1U);
  EXPECT_EQ(answer(reset, 0x04), 1U);
  advance(30);
  EXPECT_EQ(answer(half, 0x12), 0U);
  EXPECT_EQ(answer(reset, 0x10), 0U);
  EXPECT_EQ(answer(whole, 0x10), 1U);
}

TEST_F(NatTest, TranslatesAnErrorWithThePacketThatItQuotes) {
  make("nat", kConfig);
  const Bytes out = one(kInside, from_host("10.0.0.5", 5000), kOutside);
  Ipv4Packet error{.src = "7.7.7.7", .dst = kPublic, .proto = 1};
  error.payload = icmp(11, 0, 0, Bytes(out.begin() + 14, out.end()));
  const Bytes in = one(kOutside, error.build(), kInside);
  EXPECT_EQ(read32(in, 30), 0x0a000005U);
  const Bytes quoted(in.begin() + 42, in.end());
  const Bytes original = from_host("10.0.0.5", 5000);
  EXPECT_EQ(quoted, Bytes(original.begin() + 14, original.end())) << "checksums and all";
}

TEST_F(NatTest, TranslatesAnErrorFromInside) {
  make("nat", kConfig);
  const uint16_t mapped = read16(one(kInside, from_host("10.0.0.5", 5000), kOutside), 34);
  const Bytes arrived = one(kOutside, to_public(mapped), kInside);
  Ipv4Packet error{.src = "10.0.0.5", .dst = "8.8.8.8", .proto = 1};
  error.payload = icmp(3, 3, 0, Bytes(arrived.begin() + 14, arrived.end()));
  const Bytes out = one(kInside, error.build(), kOutside);
  EXPECT_EQ(read32(out, 26), kPublicNumber);
  const Bytes quoted(out.begin() + 42, out.end());
  const Bytes original = to_public(mapped);
  EXPECT_EQ(quoted, Bytes(original.begin() + 14, original.end()));
}

TEST_F(NatTest, DropsErrorsAboutNothing) {
  make("nat", kConfig);
  Ipv4Packet error{.src = "7.7.7.7", .dst = kPublic, .proto = 1};
  const Bytes quoted = udp_frame({.src = kPublic, .dst = "8.8.8.8"}, 4000, 53);
  error.payload = icmp(11, 0, 0, Bytes(quoted.begin() + 14, quoted.end()));
  EXPECT_THAT(process(kOutside, {error.build()}), IsEmpty());
  error.payload = icmp(11, 0, 0, Bytes(20));
  EXPECT_THAT(process(kOutside, {error.build()}), IsEmpty());
  EXPECT_EQ(drops(DropReason::no_translation), 1U);
  EXPECT_EQ(drops(DropReason::unsupported), 1U);
}

TEST_F(NatTest, InsideHostsMeetByTheirPublicEndpoints) {
  make("nat", kConfig);
  const uint16_t server = read16(one(kInside, from_host("10.0.0.6", 7000), kOutside), 34);
  const Bytes in =
      one(kInside, udp_frame({.src = "10.0.0.5", .dst = kPublic}, 5000, server), kInside);
  EXPECT_EQ(read32(in, 26), kPublicNumber);
  EXPECT_EQ(read32(in, 30), 0x0a000006U);
  EXPECT_EQ(read16(in, 36), 7000);
}

TEST_F(NatTest, AnswersArpForThePublicAddressAndPassesOther) {
  make("nat", kConfig);
  constexpr MacAddress kBroadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  constexpr MacAddress kPeer{2, 9, 9, 9, 9, 9};
  EXPECT_THAT(process(kOutside, {arp_frame(1, kPeer, "203.0.113.9", {}, kPublic, kBroadcast)}),
              ElementsAre(SentPacket{kOutside, arp_frame(2, port_mac(kOutside), kPublic, kPeer,
                                                         "203.0.113.9", kPeer)}));
  const Bytes other = arp_frame(1, kPeer, "203.0.113.9", {}, "203.0.113.7", kBroadcast);
  EXPECT_THAT(process(kOutside, {other}), ElementsAre(SentPacket{kInside, other}));
}

TEST_F(NatTest, SetsTheNextHopsAddresses) {
  make("nat", R"({"inside": "0", "outside": "1", "public": ["203.0.113.1"],
                  "outside_mac": "02:cc:00:00:00:01"})");
  const Bytes out = one(kInside, from_host("10.0.0.5", 5000), kOutside);
  EXPECT_EQ(Bytes(out.begin(), out.begin() + 6), (Bytes{2, 0xcc, 0, 0, 0, 1}));
  EXPECT_EQ(Bytes(out.begin() + 6, out.begin() + 12), (Bytes{2, 0, 0, 0, 0, 1}));
}

TEST_F(NatTest, AReloadKeepsMappingsAndNeverGivesTheirPortsTwice) {
  constexpr const char* kSmall = R"({"inside": "0", "outside": "1", "public": ["203.0.113.1"],
                                     "ports": [3000, 3007]})";
  make("nat", kSmall);
  std::set<uint16_t> ports;
  for (uint16_t i = 0; i < 4; ++i) {
    ports.insert(read16(one(kInside, from_host("10.0.0.5", 5000 + i), kOutside), 34));
  }
  make("nat", kSmall);
  EXPECT_EQ(process(kOutside, {to_public(*ports.begin())}).size(), 1U);
  for (uint16_t i = 4; i < 8; ++i) {
    ports.insert(read16(one(kInside, from_host("10.0.0.5", 5000 + i), kOutside), 34));
  }
  EXPECT_EQ(ports.size(), 8U);
  EXPECT_THAT(process(kInside, {from_host("10.0.0.5", 5008)}), IsEmpty());
}

TEST_F(NatTest, DropsFragmentsAndOtherProtocols) {
  make("nat", kConfig);
  Ipv4Packet fragment{.src = "10.0.0.5", .fragment = 0x2000};
  Ipv4Packet gre{.src = "10.0.0.5", .proto = 47, .payload = Bytes(20)};
  Ipv4Packet cut{.src = "10.0.0.5", .proto = 6, .payload = Bytes(10)};
  EXPECT_THAT(process(kInside, {udp_frame(fragment, 1, 2), gre.build(), cut.build()}), IsEmpty());
  EXPECT_EQ(drops(DropReason::unsupported), 2U);
  EXPECT_EQ(drops(DropReason::malformed), 1U);
}

TEST_F(NatTest, ReportsErrors) {
  EXPECT_THAT(config_errors("nat", R"({"inside": "0", "outside": "0", "public": ["x"],
                                  "ports": [5, 1]})"),
              ElementsAre("function.outside: is the inside port",
                          "function.public: x is not an IPv4 address",
                          "function.public: a NAT needs a public address",
                          HasSubstr("function.ports: [5,1] is not the first and last port")));
}

}  // namespace
}  // namespace headrace::vnf
