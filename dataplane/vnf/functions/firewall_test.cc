// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/firewall.h"

#include <gmock/gmock.h>

#include <random>

#include "vnf/functions/test_support.h"
#include "vnf/state/acl.h"

namespace headrace::vnf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint8_t kSyn = 0x02;
constexpr uint8_t kSynAck = 0x12;
constexpr uint8_t kAck = 0x10;
constexpr uint8_t kRst = 0x04;

/// From inside (port 0) everything but telnet is allowed; from outside only the web server.
constexpr const char* kConfig = R"({
  "rules": [{"action": "deny", "from": "0", "proto": "tcp", "dst_port": 23},
            {"action": "allow", "from": "0"},
            {"action": "allow", "from": "1", "proto": "tcp", "dst": "10.0.0.80", "dst_port": "80-81"}],
  "timeouts": {"opening_s": 5, "tcp_established_s": 100, "tcp_closing_s": 2, "other_s": 10}})";

class FirewallTest : public FunctionTest {
 protected:
  static Bytes tcp_out(uint16_t port, uint8_t flags, const std::string& host = "10.0.0.5") {
    return tcp_frame({.src = host, .dst = "8.8.8.8"}, 5000, port, flags);
  }
  static Bytes tcp_in(uint16_t port, uint8_t flags) {
    return tcp_frame({.src = "8.8.8.8", .dst = "10.0.0.5"}, port, 5000, flags);
  }
  bool passes(uint16_t port, const Bytes& frame) {
    const auto sent = process(port, {frame});
    if (sent.empty()) return false;
    EXPECT_EQ(sent, (std::vector<SentPacket>{{static_cast<uint16_t>(1 - port), frame}}));
    return true;
  }
  void advance(double seconds) {
    for (int i = 0; i < 2000; ++i) {
      now_ += static_cast<uint64_t>(seconds * kTscHz / 2000);
      tick();
    }
  }
};

TEST_F(FirewallTest, TheFirstRuleThatHoldsDecides) {
  make("firewall", kConfig);
  EXPECT_FALSE(passes(0, tcp_out(23, kSyn)));
  EXPECT_TRUE(passes(0, tcp_out(80, kSyn)));
  EXPECT_FALSE(passes(1, udp_frame({.src = "8.8.8.8", .dst = "10.0.0.80"}, 1, 80)));
  for (const uint16_t port : {79, 80, 81, 82}) {
    const Bytes frame = tcp_frame({.src = "8.8.8.8", .dst = "10.0.0.80"}, 1000, port, kSyn);
    EXPECT_EQ(passes(1, frame), port == 80 || port == 81) << port;
  }
  EXPECT_FALSE(passes(1, tcp_frame({.src = "8.8.8.8", .dst = "10.0.0.81"}, 1000, 80, kSyn)));
  EXPECT_EQ(drops(DropReason::denied), 5U);
}

TEST_F(FirewallTest, AnswersPassOnlyForAnOpenSession) {
  make("firewall", kConfig);
  EXPECT_FALSE(passes(1, tcp_in(80, kSynAck)));
  EXPECT_TRUE(passes(0, tcp_out(80, kSyn)));
  EXPECT_TRUE(passes(1, tcp_in(80, kSynAck)));
  EXPECT_TRUE(passes(0, tcp_out(80, kAck)));
  EXPECT_FALSE(passes(1, tcp_in(81, kSynAck))) << "another port";
  EXPECT_EQ(counters()["sessions_made"], 1);
}

TEST_F(FirewallTest, TcpOpensWithASynOnly) {
  make("firewall", kConfig);
  EXPECT_FALSE(passes(0, tcp_out(80, kAck)));
  EXPECT_FALSE(passes(0, tcp_out(80, kRst)));
  EXPECT_TRUE(passes(0, tcp_out(80, kSyn)));
}

TEST_F(FirewallTest, SessionsEndWithTheirTime) {
  make("firewall", kConfig);
  const Bytes query = udp_frame({.src = "10.0.0.5", .dst = "8.8.8.8"}, 5000, 53);
  const Bytes answer = udp_frame({.src = "8.8.8.8", .dst = "10.0.0.5"}, 53, 5000);
  EXPECT_TRUE(passes(0, query));
  EXPECT_TRUE(passes(1, answer));
  advance(8);
  EXPECT_TRUE(passes(1, answer));
  advance(12);
  EXPECT_FALSE(passes(1, answer));

  EXPECT_TRUE(passes(0, tcp_out(80, kSyn)));
  EXPECT_TRUE(passes(1, tcp_in(80, kSynAck)));
  advance(50);
  EXPECT_TRUE(passes(1, tcp_in(80, kAck))) << "established";
  EXPECT_TRUE(passes(1, tcp_in(80, kRst)));
  advance(4);
  EXPECT_FALSE(passes(1, tcp_in(80, kAck))) << "reset";
  EXPECT_EQ(counters()["sessions"], 0);
}

TEST_F(FirewallTest, AnErrorPassesWithTheSessionThatItIsAbout) {
  make("firewall", kConfig);
  const Bytes query = udp_frame({.src = "10.0.0.5", .dst = "8.8.8.8"}, 5000, 53);
  Ipv4Packet error{.src = "7.7.7.7", .dst = "10.0.0.5", .proto = 1};
  error.payload = icmp(11, 0, 0, Bytes(query.begin() + 14, query.end()));
  EXPECT_FALSE(passes(1, error.build()));
  EXPECT_TRUE(passes(0, query));
  EXPECT_TRUE(passes(1, error.build()));
}

TEST_F(FirewallTest, AFullTableRefusesNewSessionsOnly) {
  make("firewall", R"({"default": "allow", "max_sessions": 8})");
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(passes(0, tcp_out(80, kSyn, "10.0.1." + std::to_string(i))));
  }
  EXPECT_FALSE(passes(0, tcp_out(80, kSyn, "10.0.1.9")));
  EXPECT_EQ(drops(DropReason::table_full), 1U);
  EXPECT_TRUE(passes(0, tcp_out(80, kAck, "10.0.1.3")));
}

TEST_F(FirewallTest, WithoutStateEachPacketIsJudgedAlone) {
  make("firewall", R"({"stateful": false, "rules": [{"action": "allow", "from": "0"}]})");
  EXPECT_TRUE(passes(0, tcp_out(80, kAck)));
  EXPECT_FALSE(passes(1, tcp_in(80, kAck)));
  EXPECT_EQ(counters()["sessions_made"], 0);
}

TEST_F(FirewallTest, AReloadKeepsSessionsUnderNewRules) {
  make("firewall", kConfig);
  EXPECT_TRUE(passes(0, tcp_out(80, kSyn)));
  make("firewall", R"({"rules": []})");
  EXPECT_TRUE(passes(1, tcp_in(80, kSynAck)));
  EXPECT_FALSE(passes(0, tcp_out(81, kSyn)));
}

TEST_F(FirewallTest, PassesArpAndDropsWhatItCannotJudge) {
  make("firewall", R"({"default": "allow"})");
  const MacAddress mac{2, 1, 1, 1, 1, 1};
  EXPECT_TRUE(passes(0, arp_frame(1, mac, "10.0.0.5", {}, "10.0.0.1", mac)));
  Bytes ipv6(60);
  ipv6[12] = 0x86;
  ipv6[13] = 0xdd;
  Ipv4Packet fragment{.fragment = 0x2000};
  EXPECT_FALSE(passes(0, ipv6));
  EXPECT_FALSE(passes(0, udp_frame(fragment, 1, 2)));
  EXPECT_EQ(drops(DropReason::unsupported), 2U);
}

TEST_F(FirewallTest, ReportsErrors) {
  EXPECT_THAT(config_errors("firewall", R"({"rules": [
      {"action": "maybe"}, {"action": "allow", "proto": "ipx"}, {"action": "deny", "from": "9"},
      {"action": "deny", "dst_port": "90-80"}, {"action": "deny", "src": "10.0.0.1/8"}]})"),
              ElementsAre(HasSubstr("function.rules[0].action"),
                          HasSubstr("function.rules[1].proto"), HasSubstr("function.rules[2].from"),
                          HasSubstr("rules[3].dst_port"), HasSubstr("rules[4].src")));
}

class AclTest : public FunctionTest {};

/// The reference: rules compared one after the other.
uint32_t first_match(const std::vector<AclRule>& rules, uint16_t in_port, const FiveTuple& tuple) {
  const auto in = [](PortRange range, uint16_t port) {
    return port >= range.first && port <= range.last;
  };
  for (size_t i = 0; i < rules.size(); ++i) {
    const AclRule& r = rules[i];
    if ((!r.in_port || *r.in_port == in_port) && (!r.proto || *r.proto == tuple.proto) &&
        r.src.contains(tuple.src) && r.dst.contains(tuple.dst) && in(r.src_ports, tuple.src_port) &&
        in(r.dst_ports, tuple.dst_port)) {
      return static_cast<uint32_t>(i + 1);
    }
  }
  return Acl::kNoMatch;
}

TEST_F(AclTest, AgreesWithTheObviousWayOnRandomRulesAndPackets) {
  std::mt19937 random(4711);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  const auto range = [&] {
    const auto first = static_cast<uint16_t>(below(6));
    return below(2) == 0 ? PortRange{} : PortRange{first, static_cast<uint16_t>(first + below(4))};
  };
  const auto prefix = [&] {
    Ipv4Prefix p{.address = 0, .length = static_cast<uint8_t>(28 + below(5))};
    if (below(3) == 0) p.length = 0;
    p.address = (0x0a000000 + below(16)) & p.mask();
    return p;
  };
  for (int round = 0; round < 20; ++round) {
    std::vector<AclRule> rules(1 + below(40));
    for (AclRule& rule : rules) {
      if (below(2) == 0) rule.in_port = static_cast<uint16_t>(below(3));
      if (below(2) == 0) rule.proto = below(2) == 0 ? 6 : 17;
      rule.src = prefix();
      rule.dst = prefix();
      rule.src_ports = range();
      rule.dst_ports = range();
    }
    const auto acl = Acl::make(rules);
    ASSERT_TRUE(acl) << acl.error().message;
    for (int burst = 0; burst < 40; ++burst) {
      std::vector<FiveTuple> tuples(1 + below(32));
      for (FiveTuple& tuple : tuples) {
        tuple = {0x0a000000 + below(16), 0x0a000000 + below(16), static_cast<uint16_t>(below(10)),
                 static_cast<uint16_t>(below(10)), static_cast<uint8_t>(below(2) == 0 ? 6 : 17)};
      }
      const auto in_port = static_cast<uint16_t>(below(3));
      std::vector<uint32_t> results(tuples.size());
      acl->classify(in_port, tuples, results.data());
      for (size_t i = 0; i < tuples.size(); ++i) {
        EXPECT_EQ(results[i], first_match(rules, in_port, tuples[i]));
      }
    }
  }
}

}  // namespace
}  // namespace headrace::vnf
