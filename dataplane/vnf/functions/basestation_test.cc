// SPDX-License-Identifier: Apache-2.0
// The station is tested against a second instance, whose uplink keys are the first one's downlink
// keys: each decrypts what the other encrypted. That the encrypted form conforms to the RFCs is
// tested in state/esp_sa_test.cc.
#include "vnf/functions/basestation.h"

#include <gmock/gmock.h>

#include "vnf/functions/test_support.h"
#include "vnf/net/gtpu.h"

namespace headrace::vnf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint16_t kRadio = 0;
constexpr uint16_t kCore = 1;
constexpr MacAddress kUserMac{2, 9, 9, 9, 9, 9};
constexpr MacAddress kGatewayMac{2, 8, 8, 8, 8, 8};

constexpr const char* kGcmKeys = R"("suite": "aes-gcm", "salt": "01020304",
  "key": "000102030405060708090a0b0c0d0e0f")";
constexpr const char* kCbcKeys = R"("suite": "aes-cbc-hmac-sha1",
  "key": "000102030405060708090a0b0c0d0e0f", "auth_key": "0001020304050607080910111213141516171819")";

/// The station's configuration, or, with the ends exchanged, that of its gateway: what the station
/// sends from 100.64.0.x in tunnel n, the gateway delivers to its "user" of that tunnel.
std::string config(bool gateway = false, const char* keys = kGcmKeys, const char* window = "64") {
  const char* const own = gateway ? "192.0.2.2" : "192.0.2.1";
  const char* const peer = gateway ? "192.0.2.1" : "192.0.2.2";
  const char* const gtpu = gateway ? "10.255.0.2" : "10.255.0.1";
  const char* const serving = gateway ? "10.255.0.1" : "10.255.0.2";
  return fmt::format(
      R"({{"radio": "0", "core": "1", "core_address": "{}", "security_gateway": "{}",
          "core_next_hop_mac": "{}", "gtpu_address": "{}", "serving_gateway": "{}",
          "uplink": {{"spi": {}, {}}},
          "downlink": {{"spi": {}, "replay_window": {}, {}}},
          "users": [{{"address": "{}", "count": 10, "uplink_teid": {}, "downlink_teid": {}}}]}})",
      own, peer, gateway ? packet::format_mac(port_mac(kCore)) : packet::format_mac(kGatewayMac),
      gtpu, serving, gateway ? 501 : 500, keys, gateway ? 500 : 501, window, keys,
      gateway ? "20.0.0.1" : "100.64.0.1", gateway ? 1 : 1001, gateway ? 1001 : 1);
}

class BasestationTest : public FunctionTest {
 protected:
  /// A user's packet to the peer behind the gateway.
  static Bytes from_user(uint8_t number, const Bytes& data = {1, 2, 3}) {
    Ipv4Packet ip{.eth_src = kUserMac, .eth_dst = port_mac(kRadio)};
    ip.src = fmt::format("100.64.0.{}", number);
    ip.dst = fmt::format("20.0.0.{}", number);
    ip.tos = 46 << 2;
    return udp_frame(ip, 1000, 2000, data);
  }
  static Bytes to_user(uint8_t number) {
    Ipv4Packet ip{.eth_src = kUserMac, .eth_dst = port_mac(kRadio)};
    ip.src = fmt::format("20.0.0.{}", number);
    ip.dst = fmt::format("100.64.0.{}", number);
    return udp_frame(ip, 2000, 1000, {4, 5, 6});
  }
  /// Passes `frames` through a gateway: in on its radio side, out on its core side, encrypted for
  /// the station.
  std::vector<Bytes> sealed_by_gateway(const std::vector<Bytes>& frames,
                                       const char* keys = kGcmKeys) {
    BasestationTestGateway gateway(config(true, keys).c_str(), pool_.get());
    return gateway.seal(frames);
  }

 private:
  /// A second instance with its own ports.
  class BasestationTestGateway {
   public:
    BasestationTestGateway(const char* config, rte_mempool* pool) : pool_(pool), output_(2) {
      const Json json = Json::parse(config);
      ConfigErrors errors;
      ConfigReader reader(json, "function", errors);
      FunctionContext context{.ports = {}, .pool = pool, .tsc_hz = kTscHz};
      for (uint16_t i = 0; i < 2; ++i) context.ports.push_back({std::to_string(i), port_mac(i)});
      function_ = make_basestation(reader, context);
      EXPECT_THAT(errors, IsEmpty());
    }
    std::vector<Bytes> seal(const std::vector<Bytes>& frames) {
      std::vector<Bytes> out;
      for (const Bytes& frame : frames) {
        rte_mbuf* packet = rte_pktmbuf_alloc(pool_);
        std::copy(frame.begin(), frame.end(),
                  rte_pktmbuf_append(packet, static_cast<uint16_t>(frame.size())));
        function_->process(kRadio, {&packet, 1}, 0, output_);
      }
      output_.flush_all();
      for (auto& sent : output_.sent) out.push_back(sent.bytes);
      return out;
    }

   private:
    rte_mempool* pool_;
    CapturingOutput output_;
    std::unique_ptr<Function> function_;
  };
};

TEST_F(BasestationTest, TakesUsersToTheCore) {
  make("basestation", config().c_str());
  const auto out = process(kRadio, {from_user(1), from_user(10)});
  ASSERT_THAT(out, SizeIs(2));
  for (const auto& sent : out) {
    EXPECT_EQ(sent.port, kCore);
    EXPECT_EQ(Bytes(sent.bytes.begin(), sent.bytes.begin() + 6),
              Bytes(kGatewayMac.begin(), kGatewayMac.end()));
    EXPECT_EQ(sent.bytes[23], 50);
    EXPECT_EQ(read32(sent.bytes, 26), *parse_ipv4("192.0.2.1"));
    EXPECT_EQ(read32(sent.bytes, 30), *parse_ipv4("192.0.2.2"));
    EXPECT_EQ(read32(sent.bytes, 34), 500U);
  }
  EXPECT_EQ(counters(), (Json{{"uplink", 2}, {"downlink", 0}, {"users_seen", 2}}));
}

TEST_F(BasestationTest, TheTunnelsHeaderIsRight) {
  auto header = make_gtpu_header(*parse_ipv4("10.0.0.1"), *parse_ipv4("10.0.0.2"));
  set_gtpu_payload(header, 0x01020304, 100, 0xb8);
  const auto* octets = reinterpret_cast<const uint8_t*>(&header);
  EXPECT_EQ(packet::checksum({octets, 20}), 0);
  EXPECT_EQ(Bytes(octets, octets + 10), (Bytes{0x45, 0xb8, 0, 136, 0, 0, 0, 0, 64, 17}));
  EXPECT_EQ(Bytes(octets + 20, octets + 36),
            (Bytes{8, 0x68, 8, 0x68, 0, 116, 0, 0, 0x30, 255, 0, 100, 1, 2, 3, 4}));
}

TEST_F(BasestationTest, PassesOverOptionalFieldsOfGtpu) {
  const Bytes plain{0x30, 255, 0, 2, 0, 0, 0, 9, 1, 2};
  EXPECT_EQ(gtpu_payload(plain)->offset, 8);
  const Bytes sequence{0x32, 255, 0, 6, 0, 0, 0, 9, 0, 1, 0, 0, 1, 2};
  EXPECT_EQ(gtpu_payload(sequence)->offset, 12);
  const Bytes extension{0x34, 255, 0, 10, 0, 0, 0, 9, 0, 0, 0, 0x85, 1, 0x10, 9, 0, 1, 2};
  EXPECT_EQ(gtpu_payload(extension)->offset, 16);
  Bytes endless = extension;
  endless[12] = 0;
  EXPECT_FALSE(gtpu_payload(endless));
  Bytes too_long = extension;
  too_long[12] = 3;
  EXPECT_FALSE(gtpu_payload(too_long));
  Bytes echo = plain;
  echo[1] = 1;
  EXPECT_FALSE(gtpu_payload(echo));
  for (size_t size = 0; size < extension.size(); ++size) {
    EXPECT_FALSE(gtpu_payload({extension.data(), size})) << size;
  }
}

class BasestationSuiteTest : public BasestationTest,
                             public ::testing::WithParamInterface<const char*> {};

TEST_P(BasestationSuiteTest, GivesTheCoresPacketsToTheirUsers) {
  make("basestation", config(false, GetParam()).c_str());
  process(kRadio, {from_user(1), from_user(2)});  // the users' MAC addresses are learnt
  const auto sealed = sealed_by_gateway({to_user(1), to_user(2)}, GetParam());
  ASSERT_THAT(sealed, SizeIs(2));
  auto expected = [](uint8_t number) {
    Bytes frame = to_user(number);
    std::copy(kUserMac.begin(), kUserMac.end(), frame.begin());
    const auto mac = port_mac(kRadio);
    std::copy(mac.begin(), mac.end(), frame.begin() + 6);
    return SentPacket{kRadio, frame};
  };
  EXPECT_THAT(process(kCore, sealed), ElementsAre(expected(1), expected(2)));
  EXPECT_EQ(counters()["downlink"], 2);
}

INSTANTIATE_TEST_SUITE_P(Suites, BasestationSuiteTest, ::testing::Values(kGcmKeys, kCbcKeys));

TEST_F(BasestationTest, DropsReplaysForgeriesAndUnknownUsers) {
  make("basestation", config().c_str());
  process(kRadio, {from_user(1)});
  const auto sealed = sealed_by_gateway({to_user(1), to_user(2), to_user(1)});
  EXPECT_THAT(process(kCore, {sealed[0], sealed[1]}), SizeIs(1));
  EXPECT_EQ(drops(DropReason::no_neighbor), 1U) << "user 2 has not sent anything";
  EXPECT_THAT(process(kCore, {sealed[0]}), IsEmpty());
  EXPECT_EQ(drops(DropReason::replayed), 1U);
  Bytes forged = sealed[2];
  forged.back() ^= 1;
  EXPECT_THAT(process(kCore, {forged}), IsEmpty());
  EXPECT_EQ(drops(DropReason::crypto_failed), 1U);
  Bytes other_spi = sealed[2];
  other_spi[37] ^= 1;
  EXPECT_THAT(process(kCore, {other_spi, from_user(1)}), IsEmpty());
  EXPECT_THAT(process(kRadio, {from_user(11), to_user(1)}), IsEmpty());
  EXPECT_EQ(drops(DropReason::denied), 3U);
  EXPECT_THAT(process(kCore, {sealed[2]}), SizeIs(1));
}

TEST_F(BasestationTest, SurvivesEveryTruncation) {
  make("basestation", config().c_str());
  process(kRadio, {from_user(1)});
  const auto sealed = sealed_by_gateway({to_user(1)});
  for (size_t size = 0; size < sealed[0].size(); ++size) {
    Bytes cut(sealed[0].begin(), sealed[0].begin() + static_cast<long>(size));
    EXPECT_THAT(process(kCore, {cut}), IsEmpty()) << size;
    if (size < 34) continue;
    // The same with a matching length and checksum, so that the packet gets as far as ESP.
    cut[16] = static_cast<uint8_t>((size - 14) >> 8);
    cut[17] = static_cast<uint8_t>(size - 14);
    cut[24] = cut[25] = 0;
    const uint16_t sum = packet::checksum({cut.data() + 14, 20});
    packet::store_raw16(&cut[24], sum);
    EXPECT_THAT(process(kCore, {cut}), IsEmpty()) << size;
  }
  const Bytes user = from_user(1);
  for (size_t size = 0; size < user.size(); ++size) {
    process(kRadio, {Bytes(user.begin(), user.begin() + static_cast<long>(size))});
  }
}

TEST_F(BasestationTest, AnswersArpOnBothSides) {
  make("basestation", config().c_str());
  constexpr MacAddress kAll{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  EXPECT_THAT(process(kRadio, {arp_frame(1, kUserMac, "100.64.0.1", {}, "100.64.0.254", kAll)}),
              ElementsAre(SentPacket{kRadio, arp_frame(2, port_mac(kRadio), "100.64.0.254",
                                                       kUserMac, "100.64.0.1", kUserMac)}));
  EXPECT_THAT(process(kCore, {arp_frame(1, kGatewayMac, "192.0.2.2", {}, "192.0.2.1", kAll)}),
              ElementsAre(SentPacket{kCore, arp_frame(2, port_mac(kCore), "192.0.2.1", kGatewayMac,
                                                      "192.0.2.2", kGatewayMac)}));
  EXPECT_THAT(process(kRadio, {arp_frame(1, kUserMac, "100.64.0.1", {}, "100.64.0.1", kAll),
                               arp_frame(1, kUserMac, "100.64.9.1", {}, "100.64.0.254", kAll)}),
              IsEmpty());
  const auto sealed = sealed_by_gateway({to_user(1)});
  EXPECT_THAT(process(kCore, sealed), SizeIs(1)) << "the ARP request gave the user's MAC address";
}

TEST_F(BasestationTest, AReloadKeepsSequencesWindowsAndUsers) {
  make("basestation", config().c_str());
  const auto before = process(kRadio, {from_user(1)});
  const auto sealed = sealed_by_gateway({to_user(1), to_user(1)});
  EXPECT_THAT(process(kCore, {sealed[0]}), SizeIs(1));
  make("basestation", config().c_str());
  const auto after = process(kRadio, {from_user(1)});
  EXPECT_EQ(read32(after[0].bytes, 38), read32(before[0].bytes, 38) + 1);
  EXPECT_THAT(process(kCore, {sealed[0], sealed[1]}), SizeIs(1));
  EXPECT_EQ(drops(DropReason::replayed), 1U);
}

TEST_F(BasestationTest, CarriesFullSizedPackets) {
  make("basestation", config().c_str());
  const auto out = process(kRadio, {from_user(1, Bytes(1472, 7))});
  ASSERT_THAT(out, SizeIs(1));
  EXPECT_EQ(out[0].bytes.size(), 14U + 20 + 8 + 8 + 36 + 1500 + 2 + 2 + 16);
}

TEST_F(BasestationTest, ReportsErrorsButNoKeys) {
  auto bad = Json::parse(config());
  bad["uplink"]["key"] = "00112233";
  bad["uplink"]["spi"] = 3;
  bad["downlink"]["salt"] = "0x";
  bad["users"].push_back(bad["users"][0]);
  bad["radio"] = "7";
  const auto errors = config_errors("basestation", bad.dump().c_str());
  EXPECT_THAT(errors, ElementsAre(HasSubstr("function.radio: isn't in"),
                                  HasSubstr("function.uplink.spi: 3"),
                                  "function.uplink.key: 4 octets; AES takes 16, 24 or 32",
                                  HasSubstr("function.downlink.salt: not an even number"),
                                  HasSubstr("function.users[1].address: an address or")));
}

}  // namespace
}  // namespace headrace::vnf
