// SPDX-License-Identifier: Apache-2.0
// Bursts of several rules: whatever the mix, each packet goes where its rule says and is counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "pipeline/execute/classification.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {
namespace {

using match::Field;

constexpr size_t kUdpDst = 36;  ///< of a plain frame

InstructionList output(PortNo port) {
  return {ApplyActions{{OutputAction{port}}}};
}

/// An LSI that sends UDP ports 1 to `rules` on by port 2, drops port 0 by a rule, and knows nothing
/// of any other.
class MixedBursts : public testing::Test {
 protected:
  void allow(uint16_t rules) {
    for (uint16_t port = 0; port <= rules; ++port) {
      ASSERT_TRUE(sw_.lsi.flow_mod(add_flow(
          0, 10,
          make_match({{Field::eth_type, 0x0800}, {Field::ip_proto, 17}, {Field::udp_dst, port}}),
          port == 0 ? InstructionList{} : output(2))));
    }
  }

  /// Sends a burst of packets for these UDP ports, of different sizes, and compares all counts.
  void check(const std::vector<uint16_t>& ports, uint16_t rules) {
    std::vector<Bytes> frames;
    std::map<uint16_t, std::vector<Bytes>> wanted;
    size_t packets_out = 0;
    std::vector<uint64_t> wanted_bytes(size_t{rules} + 1);
    std::vector<uint64_t> wanted_packets(size_t{rules} + 1);
    uint64_t bytes_out = 0;
    uint64_t missed = 0;
    for (size_t i = 0; i < ports.size(); ++i) {
      frames.push_back(
          make_frame({.l4_src = static_cast<uint16_t>(i), .l4_dst = ports[i], .size = 60 + 3 * i}));
      if (ports[i] > rules) {
        ++missed;
        continue;
      }
      ++wanted_packets[ports[i]];
      wanted_bytes[ports[i]] += frames.back().size();
      if (ports[i] == 0) continue;
      wanted[ports[i]].push_back(frames.back());
      ++packets_out;
      bytes_out += frames.back().size();
    }
    const auto before_drops = sw_.lsi.drops();
    const PortStats before = sw_.lsi.port_stats(2)->at(0);
    const std::vector<FlowStats> flows_before = flows(rules);
    sw_.send(1, frames);
    // In the order in which they came, rule by rule.
    std::map<uint16_t, std::vector<Bytes>> sent;
    for (const Bytes& frame : sw_.take(2)) {
      sent[static_cast<uint16_t>(frame[kUdpDst] << 8 | frame[kUdpDst + 1])].push_back(frame);
    }
    EXPECT_EQ(sent, wanted);
    const auto drops = sw_.lsi.drops();
    const auto more = [&](DropReason reason) {
      return drops[static_cast<size_t>(reason)] - before_drops[static_cast<size_t>(reason)];
    };
    EXPECT_EQ(more(DropReason::table_miss), missed);
    EXPECT_EQ(more(DropReason::no_output), wanted_packets[0]);
    const PortStats after = sw_.lsi.port_stats(2)->at(0);
    EXPECT_EQ(after.tx_packets - before.tx_packets, packets_out);
    EXPECT_EQ(after.tx_bytes - before.tx_bytes, bytes_out);
    const std::vector<FlowStats> flows_after = flows(rules);
    for (uint16_t port = 0; port <= rules; ++port) {
      EXPECT_EQ(flows_after[port].packets - flows_before[port].packets, wanted_packets[port]);
      EXPECT_EQ(flows_after[port].bytes - flows_before[port].bytes, wanted_bytes[port]);
    }
    EXPECT_EQ(rte_mempool_in_use_count(mbuf_pool()), 0u);
  }

  std::vector<FlowStats> flows(uint16_t rules) {
    std::vector<FlowStats> found;
    for (uint16_t port = 0; port <= rules; ++port) {
      FlowFilter filter;
      filter.match =
          make_match({{Field::eth_type, 0x0800}, {Field::ip_proto, 17}, {Field::udp_dst, port}});
      found.push_back(sw_.flow(filter));
    }
    return found;
  }

  TestSwitch sw_{2};
};

TEST_F(MixedBursts, OneMissAtAnyPlace) {
  allow(1);
  for (const uint16_t miss : {0, 99}) {
    for (size_t n = 2; n <= kBurst; ++n) {
      for (size_t at = 0; at < n; ++at) {
        std::vector<uint16_t> ports(n, 1);
        ports[at] = miss;
        check(ports, 1);
      }
    }
  }
}

TEST_F(MixedBursts, AnyMixOfFewRules) {
  constexpr uint16_t kRules = 4;
  allow(kRules);
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    const size_t kinds = 1 + random() % 4;
    const unsigned rare = 1 + random() % 40;
    std::vector<uint16_t> ports(1 + random() % kBurst);
    const auto usual = static_cast<uint16_t>(random() % (kRules + 2));
    for (uint16_t& port : ports) {
      port = random() % rare != 0 ? usual : static_cast<uint16_t>(random() % (kRules + 2) % kinds);
    }
    check(ports, kRules);
  }
}

TEST_F(MixedBursts, MissesAmongManyRules) {
  constexpr uint16_t kRules = 60;
  allow(kRules);
  std::mt19937 random(4);
  for (int round = 0; round < 500; ++round) {
    std::vector<uint16_t> ports(kBurst);
    for (uint16_t& port : ports) port = static_cast<uint16_t>(1 + random() % kRules);
    for (size_t n = random() % 4; n > 0; --n) {
      ports[random() % kBurst] = random() % 2 == 0 ? 0 : kRules + 1;
    }
    check(ports, kRules);
  }
}

/// Packets of a flow leave in the order in which they came, however many leave together.
TEST(TxBuffers, KeepsOrderAndBytesOfBurstsOfAnySize) {
  TestSwitch sw(2);
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, {}, output(2))));
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<Bytes> all;
    uint64_t bytes = 0;
    const PortStats before = sw.lsi.port_stats(2)->at(0);
    for (size_t bursts = 1 + random() % 6; bursts > 0; --bursts) {
      std::array<rte_mbuf*, kBurst> packets;
      const size_t n = 1 + random() % kBurst;
      for (size_t i = 0; i < n; ++i) {
        all.push_back(
            make_frame({.l4_src = static_cast<uint16_t>(all.size()), .size = 60 + random() % 100}));
        bytes += all.back().size();
        packets[i] = make_packet(all.back());
      }
      sw.executor.run(sw.lsi.program(), 1, {packets.data(), n});
    }
    sw.executor.flush();
    EXPECT_EQ(sw.take(2), all);
    const PortStats after = sw.lsi.port_stats(2)->at(0);
    EXPECT_EQ(after.tx_packets - before.tx_packets, all.size());
    EXPECT_EQ(after.tx_bytes - before.tx_bytes, bytes);
  }
}

TEST(PositionsOf, VariantsAgree) {
  std::mt19937 random(6);
  for (int round = 0; round < 1000; ++round) {
    std::array<uint32_t, kBurst> rules;
    for (uint32_t& rule : rules) {
      rule = random() % 3 == 0 ? random() : random() % 2 << (random() % 32);
    }
    for (const uint32_t rule : rules) {
      EXPECT_EQ(positions_of(rules, rule), positions_of_portable(rules, rule));
    }
  }
}

}  // namespace
}  // namespace headrace::pipeline::test
