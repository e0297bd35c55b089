// SPDX-License-Identifier: Apache-2.0
// IPv6 in `router`. Messages are checked against the RFCs octet by octet, with an independent
// checksum function.
#include "vnf/functions/ipv6_router.h"

#include <gmock/gmock.h>

#include "vnf/functions/test_support.h"

namespace headrace::vnf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr MacAddress kHostMac{2, 0xbb, 0, 0, 0, 9};
constexpr MacAddress kGatewayMac{2, 0xaa, 0, 0, 0, 2};

/// Port 0: 2001:db8:0::1/64; port 1: 2001:db8:1::1/64 with a fixed gateway ::2 and one to resolve,
/// ::3; and IPv4 beside it.
constexpr const char* kConfig = R"({
  "interfaces": [{"port": "0", "address": "2001:db8::1/64"},
                 {"port": "1", "address": "2001:db8:1::1/64"},
                 {"port": "0", "address": "10.0.0.1/24"}],
  "routes": [{"prefix": "2001:db8:100::/40", "via": "2001:db8:1::2"},
             {"prefix": "2001:db8:100:5::/64", "via": "2001:db8:1::3"},
             {"prefix": "2001:db8:100:5::80/121", "via": "2001:db8:1::2"}],
  "neighbors": [{"address": "2001:db8:1::2", "mac": "02:aa:00:00:00:02"},
                 {"address": "2001:db8::9", "mac": "02:09:09:09:09:09"}],
  "mtu": 1280, "arp_timeout_s": 60, "icmp_errors_per_s": 10})";

/// A simple checksum over pseudo-header and message, deliberately not the implementation under
/// test.
uint16_t plain_checksum(const Bytes& frame) {
  uint32_t sum = frame[20] + (frame.size() - 54);  // next header and length
  for (size_t i = 22; i < frame.size(); i += 2) {
    sum += static_cast<uint32_t>(frame[i] << 8 | (i + 1 < frame.size() ? frame[i + 1] : 0));
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

struct Ipv6Packet {
  MacAddress eth_src{2, 9, 9, 9, 9, 9};
  MacAddress eth_dst{2, 0, 0, 0, 0, 0};
  std::string src{"2001:db8::9"};
  std::string dst{"2001:db8:1::9"};
  uint8_t hop_limit{64};
  uint8_t next_header{17};
  Bytes payload{0x03, 0xe8, 0x07, 0xd0, 0, 10, 0, 0, 1, 2};

  [[nodiscard]] Bytes build() const {
    Bytes frame(eth_dst.begin(), eth_dst.end());
    frame.insert(frame.end(), eth_src.begin(), eth_src.end());
    const auto size = static_cast<uint8_t>(payload.size());
    const auto high = static_cast<uint8_t>(payload.size() >> 8);
    for (const uint8_t octet : {uint8_t{0x86}, uint8_t{0xdd}, uint8_t{0x60}, uint8_t{0}, uint8_t{0},
                                uint8_t{0}, high, size, next_header, hop_limit}) {
      frame.push_back(octet);
    }
    for (const auto& address : {*parse_ipv6(src), *parse_ipv6(dst)}) {
      frame.insert(frame.end(), address.begin(), address.end());
    }
    frame.insert(frame.end(), payload.begin(), payload.end());
    if (next_header == 58 && payload.size() >= 4) {
      frame[56] = frame[57] = 0;
      const uint16_t sum = plain_checksum(frame);
      frame[56] = static_cast<uint8_t>(sum >> 8);
      frame[57] = static_cast<uint8_t>(sum);
    }
    return frame;
  }
};

Bytes solicitation_or_advertisement(uint8_t type, uint32_t flags, const std::string& target,
                                    const MacAddress* link) {
  Bytes message{type, 0, 0, 0};
  for (int shift = 24; shift >= 0; shift -= 8) {
    message.push_back(static_cast<uint8_t>(flags >> shift));
  }
  const auto address = *parse_ipv6(target);
  message.insert(message.end(), address.begin(), address.end());
  if (link != nullptr) {
    message.push_back(type == 135 ? 1 : 2);
    message.push_back(1);
    message.insert(message.end(), link->begin(), link->end());
  }
  return message;
}

class Ipv6RouterTest : public FunctionTest {
 protected:
  Ipv6RouterTest() { make("router", kConfig); }
  static Bytes to(const std::string& dst, uint8_t hop_limit = 64) {
    return Ipv6Packet{.dst = dst, .hop_limit = hop_limit}.build();
  }
  static Bytes onward(const std::string& dst, const MacAddress& mac) {
    return Ipv6Packet{.eth_src = port_mac(1), .eth_dst = mac, .dst = dst, .hop_limit = 63}.build();
  }
  /// The router's solicitation for `target` (whose last octets are 0:n) on port 1.
  static Bytes asks(const std::string& target, uint8_t n) {
    const auto own = port_mac(1);
    return Ipv6Packet{.eth_src = own,
                      .eth_dst = {0x33, 0x33, 0xff, 0, 0, n},
                      .src = "2001:db8:1::1",
                      .dst = fmt::format("ff02::1:ff00:{:x}", n),
                      .hop_limit = 255,
                      .next_header = 58,
                      .payload = solicitation_or_advertisement(135, 0, target, &own)}
        .build();
  }
  static Bytes advertises(const std::string& address, const MacAddress& mac,
                          uint32_t flags = 0x60000000) {
    return Ipv6Packet{.eth_src = mac,
                      .eth_dst = port_mac(1),
                      .src = address,
                      .dst = "2001:db8:1::1",
                      .hop_limit = 255,
                      .next_header = 58,
                      .payload = solicitation_or_advertisement(136, flags, address, &mac)}
        .build();
  }
  void advance(double seconds) { now_ += static_cast<uint64_t>(seconds * kTscHz); }
  Json six() { return counters()["ipv6"]; }
};

TEST_F(Ipv6RouterTest, ForwardsByTheLongestPrefix) {
  EXPECT_THAT(process(0, {to("2001:db8:100::7")}),
              ElementsAre(SentPacket{1, onward("2001:db8:100::7", kGatewayMac)}));
  EXPECT_THAT(process(0, {to("2001:db8:100:5::85")}),
              ElementsAre(SentPacket{1, onward("2001:db8:100:5::85", kGatewayMac)}));
  EXPECT_THAT(process(0, {to("2001:db8:100:5::1")}),
              ElementsAre(SentPacket{1, asks("2001:db8:1::3", 3)}));
  EXPECT_EQ(six()["forwarded"], 3);
}

TEST_F(Ipv6RouterTest, ForwardsIpv4InTheSameBurst) {
  const Ipv4Packet ping{
      .src = "10.0.0.9", .dst = "10.0.0.1", .proto = 1, .payload = icmp(8, 0, 1, {1, 2})};
  const auto sent = process(0, {to("2001:db8:100::7"), ping.build()});
  ASSERT_THAT(sent, SizeIs(2));
}

TEST_F(Ipv6RouterTest, ResolvesAHostAndSendsWhatWaited) {
  EXPECT_THAT(process(0, {to("2001:db8:1::77"), to("2001:db8:1::77")}),
              ElementsAre(SentPacket{1, asks("2001:db8:1::77", 0x77)}));
  const SentPacket packet{1, onward("2001:db8:1::77", kHostMac)};
  EXPECT_THAT(process(1, {advertises("2001:db8:1::77", kHostMac)}), ElementsAre(packet, packet));
  EXPECT_THAT(process(0, {to("2001:db8:1::77")}), ElementsAre(packet));
  // Without the override flag a known address isn't changed (RFC 4861, 7.2.5).
  process(1, {advertises("2001:db8:1::77", {2, 1, 1, 1, 1, 1}, 0x40000000)});
  EXPECT_THAT(process(0, {to("2001:db8:1::77")}), ElementsAre(packet));
}

TEST_F(Ipv6RouterTest, GivesUpAfterThreeSolicitationsAndSaysSo) {
  process(0, {to("2001:db8:1::77")});
  for (int i = 0; i < 2; ++i) {
    advance(1.1);
    EXPECT_THAT(tick(), ElementsAre(SentPacket{1, asks("2001:db8:1::77", 0x77)}));
  }
  advance(1.1);
  EXPECT_EQ(drops(DropReason::no_neighbor), 0U);
  tick();
  EXPECT_EQ(drops(DropReason::no_neighbor), 1U);
  EXPECT_EQ(six()["icmp_errors_sent"], 1);
}

TEST_F(Ipv6RouterTest, AnswersSolicitationsForItsAddressesOnly) {
  const auto own = port_mac(1);
  const auto asked = [&](const std::string& target, const std::string& dst, const MacAddress& mac,
                         uint8_t hop_limit = 255) {
    return Ipv6Packet{.eth_src = kHostMac,
                      .eth_dst = mac,
                      .src = "2001:db8:1::77",
                      .dst = dst,
                      .hop_limit = hop_limit,
                      .next_header = 58,
                      .payload = solicitation_or_advertisement(135, 0, target, &kHostMac)}
        .build();
  };
  const MacAddress group{0x33, 0x33, 0xff, 0, 0, 1};
  const auto answer = [&](const std::string& target) {
    return SentPacket{
        1, Ipv6Packet{.eth_src = own,
                      .eth_dst = kHostMac,
                      .src = target,
                      .dst = "2001:db8:1::77",
                      .hop_limit = 255,
                      .next_header = 58,
                      .payload = solicitation_or_advertisement(136, 0xe0000000, target, &own)}
               .build()};
  };
  EXPECT_THAT(process(1, {asked("2001:db8:1::1", "ff02::1:ff00:1", group)}),
              ElementsAre(answer("2001:db8:1::1")));
  EXPECT_THAT(process(1, {asked("fe80::ff:fe00:1", "fe80::ff:fe00:1", own)}),
              ElementsAre(answer("fe80::ff:fe00:1")));
  EXPECT_THAT(process(1, {asked("2001:db8:1::5", "ff02::1:ff00:5", {0x33, 0x33, 0xff, 0, 0, 5}),
                          asked("2001:db8::1", "ff02::1:ff00:1", group),
                          asked("2001:db8:1::1", "ff02::1:ff00:1", group, 254)}),
              IsEmpty())
      << "another's address, another port's, one that came from beyond the link";
  // The sender of a solicitation is known now.
  EXPECT_THAT(process(0, {to("2001:db8:1::77")}),
              ElementsAre(SentPacket{1, onward("2001:db8:1::77", kHostMac)}));
}

TEST_F(Ipv6RouterTest, TellsAllNodesWhenTheAskerHasNoAddress) {
  const Bytes probe =
      Ipv6Packet{.eth_src = kHostMac,
                 .eth_dst = {0x33, 0x33, 0xff, 0, 0, 1},
                 .src = "::",
                 .dst = "ff02::1:ff00:1",
                 .hop_limit = 255,
                 .next_header = 58,
                 .payload = solicitation_or_advertisement(135, 0, "2001:db8:1::1", nullptr)}
          .build();
  const auto sent = process(1, {probe});
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(Bytes(sent[0].bytes.begin(), sent[0].bytes.begin() + 6),
            (Bytes{0x33, 0x33, 0, 0, 0, 1}));
  EXPECT_EQ(read32(sent[0].bytes, 58), 0xa0000000) << "router and override, not solicited";
}

TEST_F(Ipv6RouterTest, AnswersEcho) {
  Ipv6Packet ping{
      .dst = "2001:db8::1", .next_header = 58, .payload = {128, 0, 0, 0, 1, 2, 3, 4, 5}};
  const Bytes pong = Ipv6Packet{
      .eth_src = port_mac(0),
      .eth_dst = {2, 9, 9, 9, 9, 9},
      .src = "2001:db8::1",
      .dst = "2001:db8::9",
      .next_header = 58,
      .payload = {129, 0, 0, 0, 1, 2, 3, 4,
                  5}}.build();
  EXPECT_THAT(process(0, {ping.build()}), ElementsAre(SentPacket{0, pong}));
  Bytes wrong = ping.build();
  wrong.back() ^= 1;
  EXPECT_THAT(process(0, {wrong}), IsEmpty());
  ping.dst = "2001:db8::";  // the subnet-router anycast address
  EXPECT_THAT(process(0, {ping.build()}), ElementsAre(SentPacket{0, pong}));
}

TEST_F(Ipv6RouterTest, ReportsErrorsWithThePacketQuoted) {
  const auto error = [&](uint8_t type, uint8_t code, uint32_t word, const Bytes& about) {
    const auto sent = process(0, {about});
    ASSERT_THAT(sent, SizeIs(1)) << int{type};
    Bytes payload{type, code, 0, 0};
    for (int shift = 24; shift >= 0; shift -= 8) {
      payload.push_back(static_cast<uint8_t>(word >> shift));
    }
    const size_t quoted = std::min<size_t>(about.size() - 14, 1280 - 48);
    payload.insert(payload.end(), about.begin() + 14,
                   about.begin() + 14 + static_cast<long>(quoted));
    EXPECT_EQ(sent[0], (SentPacket{0, Ipv6Packet{.eth_src = port_mac(0),
                                                 .eth_dst = {2, 9, 9, 9, 9, 9},
                                                 .src = "2001:db8::1",
                                                 .dst = "2001:db8::9",
                                                 .next_header = 58,
                                                 .payload = payload}
                                          .build()}));
  };
  error(3, 0, 0, to("2001:db8:100::7", 1));
  error(1, 0, 0, to("3001::1"));
  error(1, 4, 0, to("2001:db8::1"));
  error(4, 1, 6, Ipv6Packet{.dst = "2001:db8::1", .next_header = 99}.build());
  error(2, 0, 1280, Ipv6Packet{.dst = "2001:db8:100::7", .payload = Bytes(1300, 7)}.build());
}

TEST_F(Ipv6RouterTest, IsSilentWhereRfc4443WantsIt) {
  Ipv6Packet about{.dst = "3001::1", .next_header = 58, .payload = {1, 0, 0, 0, 0, 0, 0, 0}};
  EXPECT_THAT(process(0, {about.build()}), IsEmpty()) << "an error about an error";
  EXPECT_THAT(
      process(0, {Ipv6Packet{.src = "::", .dst = "3001::1"}.build(),
                  Ipv6Packet{.src = "ff02::1", .dst = "3001::1"}.build(),
                  Ipv6Packet{.src = "fe80::1", .dst = "2001:db8:100::1"}.build(),
                  Ipv6Packet{.dst = "ff0e::1"}.build(), Ipv6Packet{.dst = "fe80::7"}.build()}),
      IsEmpty());
  EXPECT_EQ(six()["icmp_errors_sent"], 0);
  EXPECT_EQ(drops(DropReason::denied), 3U);
}

TEST_F(Ipv6RouterTest, DropsWhatIsMalformed) {
  const Bytes good = to("2001:db8:100::7");
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(process(0, {Bytes(good.begin(), good.begin() + static_cast<long>(size))}),
                IsEmpty());
  }
  Bytes version = good;
  version[14] = 0x40;
  Bytes others = good;
  others[5] = 9;
  EXPECT_THAT(process(0, {version, others}), IsEmpty());
  const Bytes message = advertises("2001:db8:1::77", kHostMac);
  for (size_t size = 54; size < message.size(); ++size) {
    Bytes cut(message.begin(), message.begin() + static_cast<long>(size));
    cut[19] = static_cast<uint8_t>(size - 54);
    process(1, {cut});
  }
  Bytes endless = message;
  endless[79] = 0;  // an option of no length
  process(1, {endless});
  EXPECT_THAT(process(0, {to("2001:db8:1::77")}), SizeIs(1))
      << "nothing was learnt from invalid messages";
}

TEST_F(Ipv6RouterTest, AReloadKeepsWhatWasLearntAndWhatWaits) {
  process(0, {to("2001:db8:1::77")});
  make("router", kConfig);
  const SentPacket packet{1, onward("2001:db8:1::77", kHostMac)};
  EXPECT_THAT(process(1, {advertises("2001:db8:1::77", kHostMac)}), ElementsAre(packet));
  make("router", kConfig);
  EXPECT_THAT(process(0, {to("2001:db8:1::77")}), ElementsAre(packet));
}

TEST_F(Ipv6RouterTest, ReportsErrors) {
  EXPECT_THAT(config_errors("router", R"({
      "interfaces": [{"port": "0", "address": "fe80::1/64"},
                     {"port": "0", "address": "2001:db8::1/64"},
                     {"port": "1", "address": "2001:db8::/48"}],
      "routes": [{"prefix": "2001:db8::1/64", "via": "2001:db8::2"},
                 {"prefix": "::/0", "via": "3001::2"}],
      "neighbors": [{"address": "2001:db8::g", "mac": "02:aa:00:00:00:02"}],
      "mtu": 1279})"),
              ElementsAre(HasSubstr("interfaces[0].address: \"fe80::1/64\" is not a global"),
                          HasSubstr("interfaces[2].address: its subnet overlaps"),
                          HasSubstr("routes[0].prefix: \"2001:db8::1/64\" is not an IPv6 prefix"),
                          HasSubstr("routes[1].via: no interface"),
                          HasSubstr("neighbors[0].address: \"2001:db8::g\" is not an IPv6"),
                          HasSubstr("neighbors[0].address: no interface"),
                          HasSubstr("mtu: IPv6 needs at least 1280")));
}

}  // namespace
}  // namespace headrace::vnf
