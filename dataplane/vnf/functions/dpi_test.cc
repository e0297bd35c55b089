// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/dpi.h"

#include <gmock/gmock.h>

#include <string_view>

#include "vnf/functions/test_support.h"

namespace headrace::vnf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Bytes octets(std::string_view text) {
  return {text.begin(), text.end()};
}

/// A DNS query for the A record of a.de (RFC 1035, 4.1).
const Bytes kDnsQuery{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 2, 'd', 'e', 0, 0, 1, 0, 1};
const Bytes kHttpRequest = octets(
    "GET /watch HTTP/1.1\r\nHost: www.youtube.com\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n");
const Bytes kBitTorrent = octets(
    "\x13"
    "BitTorrent protocol\x01\x02\x03\x04\x05\x06\x07\x08"
    "abcdefghijklmnopqrstABCDEFGHIJKLMNOPQRST");

constexpr const char* kRules = R"({"rules": [
  {"protocol": "bittorrent", "action": "drop"},
  {"protocol": "YouTube", "action": "mark", "dscp": 8},
  {"protocol": "HTTP", "action": "mark", "dscp": 16}]})";

Bytes tcp_data(const Ipv4Packet& from, uint16_t src_port, uint16_t dst_port, const Bytes& data) {
  Ipv4Packet ip = from;
  ip.proto = 6;
  ip.payload = tcp(ip, src_port, dst_port, 0x18, data);
  return ip.build();
}

/// An IPv6 frame (RFC 8200, 3) with a transport header whose checksum isn't checked here.
Bytes ipv6_frame(uint8_t next_header, const Bytes& l4) {
  Bytes frame{2, 0, 0, 0, 0, 0, 2, 9, 9, 9, 9, 9, 0x86, 0xdd, 0x60, 0, 0, 0, 0};
  frame.push_back(static_cast<uint8_t>(l4.size()));
  frame.push_back(next_header);
  frame.push_back(64);
  for (uint8_t end = 1; end <= 2; ++end) {
    Bytes address{0x20, 0x01, 0x0d, 0xb8};
    address.resize(15);
    address.push_back(end);
    frame.insert(frame.end(), address.begin(), address.end());
  }
  frame.insert(frame.end(), l4.begin(), l4.end());
  return frame;
}

class DpiTest : public FunctionTest {
 protected:
  Json protocols() { return counters()["protocols"]; }
  const Ipv4Packet client_{.src = "10.0.0.9", .dst = "10.1.0.9"};
  const Ipv4Packet server_{.src = "10.1.0.9", .dst = "10.0.0.9"};
};

TEST_F(DpiTest, ForwardsAndCountsByProtocol) {
  make("dpi", "{}");
  const Bytes query = udp_frame(client_, 40000, 53, kDnsQuery);
  EXPECT_THAT(process(0, {query}), ElementsAre(SentPacket{1, query}));
  for (int i = 0; i < 12; ++i) process(0, {query});  // nDPI waits for a DNS reply for some packets
  EXPECT_EQ(protocols()["DNS"]["flows"], 1);
  EXPECT_EQ(protocols()["DNS"]["packets"], 13);
  EXPECT_EQ(protocols()["DNS"]["bytes"], 13 * query.size());
  EXPECT_EQ(counters()["untracked"], 0);
  EXPECT_GT(counters()["detection_packets"], 0);
  EXPECT_LT(counters()["detection_packets"], 12);
}

TEST_F(DpiTest, BothDirectionsAreOneFlow) {
  make("dpi", "{}");
  process(0, {tcp_data(client_, 40000, 80, kHttpRequest)});
  process(1, {tcp_data(server_, 80, 40000, octets("HTTP/1.1 200 OK\r\n\r\n"))});
  now_ += kTscHz / 100;
  tick();
  EXPECT_EQ(counters()["flows"], 1);
}

TEST_F(DpiTest, DropsAProtocol) {
  make("dpi", kRules);
  const Bytes handshake = tcp_data(client_, 40000, 50000, kBitTorrent);
  std::vector<SentPacket> sent;
  for (int i = 0; i < 12; ++i) sent = process(0, {handshake});
  EXPECT_THAT(sent, IsEmpty());
  EXPECT_THAT(process(1, {tcp_data(server_, 50000, 40000, octets("x"))}), IsEmpty());
  EXPECT_GT(drops(DropReason::denied), 1U);
  EXPECT_EQ(protocols()["BitTorrent"]["flows"], 1);
}

TEST_F(DpiTest, MarksAnApplicationBeforeWhatCarriesIt) {
  make("dpi", kRules);
  std::vector<SentPacket> sent;
  for (int i = 0; i < 12; ++i) sent = process(0, {tcp_data(client_, 40000, 80, kHttpRequest)});
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].bytes[15], 8 << 2);
  EXPECT_TRUE(checksums_are_right(sent[0].bytes));
  EXPECT_EQ(protocols()["YouTube"]["flows"], 1);
  const Bytes other = octets("GET / HTTP/1.1\r\nHost: www.example.org\r\n\r\n");
  for (int i = 0; i < 12; ++i) sent = process(0, {tcp_data(client_, 40001, 80, other)});
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].bytes[15], 16 << 2);
}

TEST_F(DpiTest, KnowsFlowsOfIpv6) {
  make("dpi", R"({"rules": [{"protocol": "DNS", "action": "mark", "dscp": 63}]})");
  Ipv4Packet none;
  const Bytes query = ipv6_frame(17, udp(none, 40000, 53, kDnsQuery));
  std::vector<SentPacket> sent;
  for (int i = 0; i < 12; ++i) sent = process(0, {query});
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(protocols()["DNS"]["flows"], 1);
  EXPECT_EQ(read16(sent[0].bytes, 14) >> 6 & 63, 63);  // the traffic class's upper six bits
}

TEST_F(DpiTest, GivesUpOnWhatSaysNothing) {
  make("dpi", R"({"max_packets": 3, "rules": [{"protocol": "Unknown", "action": "drop"}]})");
  const Bytes frame = udp_frame(client_, 40000, 50001, octets("no known protocol"));
  EXPECT_THAT(process(0, {frame, frame}), SizeIs(2));
  EXPECT_THAT(process(0, {frame, frame}), IsEmpty());
  EXPECT_EQ(protocols()["Unknown"]["flows"], 1);
  EXPECT_EQ(counters()["detection_packets"], 3);
}

TEST_F(DpiTest, LetsPassWhatHasNoFlow) {
  make("dpi", R"({"rules": [{"protocol": "Unknown", "action": "drop"}]})");
  const Bytes arp = arp_frame(1, {2, 9, 9, 9, 9, 9}, "10.0.0.9", {}, "10.0.0.1", port_mac(0));
  Ipv4Packet fragment = client_;
  fragment.fragment = 0x2000;
  const Bytes first = udp_frame(fragment, 40000, 53, kDnsQuery);
  Bytes cut(first.begin(), first.begin() + 20);
  EXPECT_THAT(process(0, {arp, first, cut, Bytes{1, 2, 3}}), SizeIs(4));
  EXPECT_EQ(counters()["untracked"], 4);
}

TEST_F(DpiTest, AFullTableLetsNewFlowsPassUntracked) {
  make("dpi", R"({"max_flows": 8, "max_detecting": 8})");
  std::vector<Bytes> frames;
  for (uint16_t port = 0; port < 20; ++port) {
    frames.push_back(udp_frame(client_, static_cast<uint16_t>(40000 + port), 50001, octets("x")));
  }
  EXPECT_THAT(process(0, frames), SizeIs(20));
  EXPECT_EQ(counters()["untracked"], 12);
  now_ += 61 * kTscHz;
  for (int i = 0; i < 1001; ++i) {
    now_ += kTscHz / 1000;
    tick();
  }
  EXPECT_EQ(counters()["flows"], 0) << "forgotten after the timeout";
  EXPECT_EQ(protocols()["Unknown"]["flows"], 8) << "and counted, though never decided before";
  EXPECT_THAT(process(0, frames), SizeIs(20));
  EXPECT_EQ(counters()["untracked"], 24);
}

TEST_F(DpiTest, AReloadKeepsWhatWasFound) {
  make("dpi", "{}");
  const Bytes handshake = tcp_data(client_, 40000, 50000, kBitTorrent);
  for (int i = 0; i < 12; ++i) process(0, {handshake});
  make("dpi", kRules);
  EXPECT_THAT(process(1, {tcp_data(server_, 50000, 40000, octets("x"))}), IsEmpty());
  EXPECT_EQ(protocols()["BitTorrent"]["packets"], 13);
}

TEST_F(DpiTest, ReportsErrors) {
  EXPECT_THAT(
      config_errors("dpi", R"({"rules": [{"protocol": "YuoTube", "action": "drop"},
                                    {"protocol": "DNS", "action": "drop", "dscp": 1},
                                    {"protocol": "dns", "action": "pass"},
                                    {"protocol": "TLS", "action": "mark"}], "max": 1})"),
      ElementsAre(AllOf(HasSubstr("function.rules[0].protocol: nDPI "), HasSubstr("YouTube")),
                  HasSubstr("function.rules[1].dscp: only for"),
                  HasSubstr("function.rules[2].protocol: a rule before"),
                  HasSubstr("function.rules[3].dscp: missing"), HasSubstr("max")));
}

}  // namespace
}  // namespace headrace::vnf
