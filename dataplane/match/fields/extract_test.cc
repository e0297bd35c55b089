// SPDX-License-Identifier: Apache-2.0
#include "match/fields/extract.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>

#include "match/fields/match.h"
#include "match/fields/set_field.h"
#include "match/fields/simd.h"
#include "packet/test_packet.h"

namespace headrace::match {
namespace {

/// Fields of what surrounded the packet.
bool no_header(Field field) {
  return field == Field::tunnel_id || field == Field::tun_src || field == Field::tun_dst ||
         field == Field::tun_ipv6_src || field == Field::tun_ipv6_dst;
}

using packet::FrameBuilder;
using packet::ParsedPacket;
using packet::swap16;
using packet::swap32;
using packet::TestPacket;

struct Extracted {
  FlowKey values;
  ParsedPacket parsed;
};

/// Extracts one packet into memory that held something else before.
Extracted extract(const std::vector<uint8_t>& frame, Depth depth = Depth::full) {
  TestPacket packet(frame);
  const std::array burst = {packet.mbuf()};
  Extracted out;
  std::memset(static_cast<void*>(&out), 0xa5, sizeof out);
  extractor_for(depth)(burst, {7, 9}, &out.values, &out.parsed);
  return out;
}

TEST(ExtractTest, DepthForWords) {
  EXPECT_EQ(depth_for(0b111), Depth::l2);
  EXPECT_EQ(depth_for(0b1100111), Depth::l2) << "metadata and tunnel_id come with every depth";
  EXPECT_EQ(depth_for(0b1001), Depth::l3);
  EXPECT_EQ(depth_for(0b10001), Depth::l4);
  EXPECT_EQ(depth_for(1u << 9), Depth::full);
}

TEST(ExtractTest, UntaggedTcp) {
  const auto frame =
      FrameBuilder().ethernet(0x0800).ipv4(6, 46 << 2 | 2).tcp(80, 443, 0x112).payload(6).frame();
  const FlowKey v = extract(frame).values;
  EXPECT_EQ(v.eth_dst[5], 2);
  EXPECT_EQ(v.eth_src[5], 1);
  EXPECT_EQ(v.eth_type, swap16(0x0800));
  EXPECT_EQ(v.vlan_vid, 0);
  EXPECT_EQ(v.vlan_pcp, 0);
  EXPECT_EQ(v.in_port, swap32(7));
  EXPECT_EQ(v.in_phy_port, swap32(9));
  EXPECT_EQ(v.ipv4_src, swap32(0x0a000001));
  EXPECT_EQ(v.ipv4_dst, swap32(0x0a000002));
  EXPECT_EQ(v.ip_proto, 6);
  EXPECT_EQ(v.ip_dscp, 46);
  EXPECT_EQ(v.ip_ecn, 2);
  EXPECT_EQ(v.l4_src, swap16(80));
  EXPECT_EQ(v.l4_dst, swap16(443));
  EXPECT_EQ(v.metadata, 0u);
  EXPECT_EQ(v.tunnel_id, 0u);
  EXPECT_EQ(v.tcp_flags, swap16(0x112));
  EXPECT_EQ(v.icmp_type, 0);
}

TEST(ExtractTest, VlanHasTheOutermostTagAndTheInnermostType) {
  const auto frame = FrameBuilder()
                         .ethernet(0x88a8)
                         .vlan(5 << 13 | 1 << 12 | 100, 0x8100)
                         .vlan(200, 0x0800)
                         .ipv4(17)
                         .udp(1, 2)
                         .payload(20)
                         .frame();
  for (const Depth depth : {Depth::l4, Depth::full}) {
    const FlowKey v = extract(frame, depth).values;
    EXPECT_EQ(v.vlan_vid, swap16(0x1000 | 100));
    EXPECT_EQ(v.vlan_pcp, 5);
    EXPECT_EQ(v.eth_type, swap16(0x0800));
    EXPECT_EQ(v.l4_dst, swap16(2));
  }
}

TEST(ExtractTest, PriorityTagHasVidPresentAndZero) {
  const auto frame = FrameBuilder().ethernet(0x8100).vlan(0, 0x0806).arp(1).frame();
  EXPECT_EQ(extract(frame).values.vlan_vid, swap16(0x1000));
}

TEST(ExtractTest, Arp) {
  const FlowKey v = extract(FrameBuilder().ethernet(0x0806).arp(2).frame()).values;
  EXPECT_EQ(v.arp_op, swap16(2));
  EXPECT_EQ(v.arp_spa, swap32(0x0a000001));
  EXPECT_EQ(v.arp_tpa, swap32(0x0a000002));
  EXPECT_EQ(v.link_source[5], 1);
  EXPECT_EQ(v.link_target[5], 2);
  EXPECT_EQ(v.ipv4_src, 0u);
}

TEST(ExtractTest, Ipv6AndNeighborDiscovery) {
  FrameBuilder builder;
  builder.ethernet(0x86dd).ipv6(58, 10 << 2 | 1, 0xabcde);
  builder.icmp(packet::kIcmpv6NeighborSolicitation, 3).be32(0).payload(16);
  const FlowKey v =
      extract(builder.bytes({1, 1, 2, 0, 0, 0, 0, 9, 2, 1, 2, 0, 0, 0, 0, 8}).frame()).values;
  EXPECT_EQ(v.ipv6_flabel, swap32(0xabcde));
  EXPECT_EQ(v.ipv6_src[15], 1);
  EXPECT_EQ(v.ipv6_dst[15], 2);
  EXPECT_EQ(v.ip_dscp, 10);
  EXPECT_EQ(v.ip_ecn, 1);
  EXPECT_EQ(v.ip_proto, 58);
  EXPECT_EQ(v.icmp_type, packet::kIcmpv6NeighborSolicitation);
  EXPECT_EQ(v.icmp_code, 3);
  EXPECT_EQ(v.ipv6_nd_target[15], 15 * 7 + 1);
  EXPECT_EQ(v.link_source[5], 9);
  EXPECT_EQ(v.link_target[5], 8);
  EXPECT_EQ(v.ipv4_dst, 0u);
  EXPECT_EQ(v.l4_src, 0) << "ICMP has no ports";
}

TEST(ExtractTest, ExtensionHeaders) {
  const auto frame =
      FrameBuilder().ethernet(0x86dd).ipv6(0).extension(51).extension(6).tcp(1, 2).frame();
  const FlowKey v = extract(frame).values;
  EXPECT_EQ(v.ipv6_exthdr, swap16(packet::kExthdrHop | packet::kExthdrAuth));
  EXPECT_EQ(v.ip_proto, 6);
  EXPECT_EQ(v.l4_dst, swap16(2));
}

TEST(ExtractTest, MplsAndPbb) {
  const FlowKey m =
      extract(FrameBuilder().ethernet(0x8847).mpls(0x12345, 5, true, 3).payload(30).frame()).values;
  EXPECT_EQ(m.mpls_label, swap32(0x12345));
  EXPECT_EQ(m.mpls_tc, 5);
  EXPECT_EQ(m.mpls_bos, 1);
  const FlowKey p =
      extract(FrameBuilder().ethernet(0x88e7).be32(0x08010203).ethernet(0x0800).frame()).values;
  EXPECT_EQ(p.pbb_isid, swap32(0x010203));
  EXPECT_EQ(p.pbb_uca, 1);
  EXPECT_EQ(p.eth_type, swap16(0x88e7));
}

TEST(ExtractTest, Icmp) {
  const FlowKey v =
      extract(FrameBuilder().ethernet(0x0800).ipv4(1).icmp(8, 4).payload(40).frame()).values;
  EXPECT_EQ(v.icmp_type, 8);
  EXPECT_EQ(v.icmp_code, 4);
}

// Not inlined: gcc 12 would then see overflows in std::vector that are not there.
[[gnu::noinline]] std::vector<uint8_t> random_frame(std::mt19937& random) {
  const auto dice = [&random](uint32_t limit) { return random() % limit; };
  FrameBuilder builder;
  const uint32_t tags = dice(4);
  const uint16_t types[] = {0x0800, 0x0800, 0x0800, 0x86dd, 0x0806, 0x8847, 0x88e7, 0x1234};
  const uint16_t type = types[dice(8)];
  builder.ethernet(tags == 0 ? type : dice(2) == 0 ? 0x8100 : 0x88a8);
  for (uint32_t i = 0; i < tags; ++i) {
    builder.vlan(static_cast<uint16_t>(random()), i + 1 == tags ? type : 0x8100);
  }
  const uint8_t protos[] = {1, 6, 17, 132, 58, 47};
  const uint8_t proto = protos[dice(6)];
  if (type == 0x0800) builder.ipv4(proto, static_cast<uint8_t>(random()), dice(5) == 0 ? 5 : 0);
  if (type == 0x86dd) builder.ipv6(dice(2) == 0 ? 60 : proto, static_cast<uint8_t>(random()));
  if (type == 0x0806) builder.arp(1);
  builder.payload(dice(60));
  std::vector<uint8_t> frame = builder.frame();
  for (uint32_t i = 0; i < dice(4); ++i) frame[dice(frame.size())] = static_cast<uint8_t>(random());
  if (dice(3) == 0) frame.resize(dice(frame.size() + 1));
  return frame;
}

/// Extractors for each level of vector instructions that the processor has.
class ExtractorTest : public testing::TestWithParam<Simd> {
 protected:
  ExtractorTest() { set_simd(GetParam()); }
  ~ExtractorTest() override { set_simd(Simd::avx512); }
};

INSTANTIATE_TEST_SUITE_P(AllSimd, ExtractorTest, testing::ValuesIn(simd_levels()),
                         [](const auto& level) { return std::string(name(level.param)); });

/// The straight path and the general parser see the same packet alike, at every depth.
TEST_P(ExtractorTest, StraightPathAgreesWithGeneralParser) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::unique_ptr<TestPacket>> packets;
    std::array<rte_mbuf*, 32> burst;
    for (rte_mbuf*& each : burst) {
      packets.push_back(std::make_unique<TestPacket>(random_frame(random)));
      each = packets.back()->mbuf();
    }
    for (const Depth depth : {Depth::l2, Depth::l3, Depth::l4, Depth::full}) {
      FlowKey values[32];
      ParsedPacket parsed[32];
      std::memset(static_cast<void*>(values), 0x5a, sizeof values);
      extractor_for(depth)(burst, {1, 2}, values, parsed);
      for (size_t i = 0; i < 32; ++i) {
        FlowKey general;
        ParsedPacket general_parsed;
        refresh(depth, burst[i], general, general_parsed);
        general.in_port = swap32(1);
        general.in_phy_port = swap32(2);
        const size_t words = depth == Depth::l2 ? 3 : depth == Depth::full ? kFieldWords : 5;
        for (size_t w = 0; w < words; ++w) {
          ASSERT_EQ(word(values[i], w), word(general, w)) << "word " << w;
        }
        ASSERT_EQ(word(values[i], 5), 0u);
        ASSERT_EQ(word(values[i], 6), 0u);
        ASSERT_EQ(std::memcmp(&parsed[i], &general_parsed, sizeof general_parsed), 0);
      }
    }
  }
}

/// What an extractor says of a burst as a whole is true of each packet.
TEST_P(ExtractorTest, FactsHold) {
  std::mt19937 random(3);
  const auto octet = [](const rte_mbuf* packet, size_t at) {
    return rte_pktmbuf_mtod(packet, const uint8_t*)[at];
  };
  size_t plain = 0;
  size_t lasting = 0;
  for (int round = 0; round < 4000; ++round) {
    // A few frames many times over: then something may be the same in all.
    std::vector<std::unique_ptr<TestPacket>> packets;
    const size_t different = 1 + random() % 3;
    for (size_t i = 0; i < different; ++i) {
      std::vector<uint8_t> frame = random_frame(random);
      if (random() % 4 == 0 && frame.size() > 14 + 8) {
        frame[14 + 8] = static_cast<uint8_t>(random() % 3);
      }
      packets.push_back(std::make_unique<TestPacket>(frame));
    }
    std::array<rte_mbuf*, 32> burst;
    for (rte_mbuf*& each : burst) each = packets[random() % packets.size()]->mbuf();
    for (const Depth depth : {Depth::l2, Depth::l3, Depth::l4, Depth::full}) {
      FlowKey values[32];
      ParsedPacket parsed[32];
      const BurstMetadata metadata = extractor_for(depth)(burst, {1, 2}, values, parsed);
      const size_t words = depth == Depth::l2 ? 3 : depth == Depth::full ? kFieldWords : 7;
      for (size_t i = 0; i < 32; ++i) {
        for (size_t w = 0; w < words; ++w) {
          if ((metadata.differ >> w & 1) != 0) continue;
          ASSERT_EQ(word(values[i], w), word(values[0], w)) << "word " << w;
        }
        if (metadata.plain_ipv4) {
          ASSERT_EQ(parsed[i].l3, 14);
          ASSERT_TRUE(parsed[i].has(packet::kIpv4));
        }
        if (metadata.ttl_lasts) {
          ASSERT_TRUE(metadata.plain_ipv4);
          ASSERT_GT(octet(burst[i], 14 + 8), 1);
        }
      }
      plain += metadata.plain_ipv4 ? 1 : 0;
      lasting += metadata.ttl_lasts ? 1 : 0;
      if (packets.size() == 1 && simd() != Simd::portable) {
        ASSERT_EQ(metadata.differ & 0xffu, 0u);
      }
    }
  }
  if (simd() != Simd::portable) {
    EXPECT_GT(plain, lasting) << "some TTLs expire";
    EXPECT_GT(lasting, 0u);
  }
}

TEST(SetFieldTest, EverySettableFieldHasAFunction) {
  for (const FieldInfo& entry : detail::kFields) {
    const bool expected = entry.settable && entry.field != Field::gtpu_qfi;
    EXPECT_EQ(set_field_for(entry.field) != nullptr, expected) << entry.name;
  }
}

/// Setting a field and extracting again gives the values that set-field left behind.
TEST(SetFieldTest, ValuesStayInStepWithThePacket) {
  FrameBuilder nd;
  nd.ethernet(0x86dd).ipv6(58).icmp(135, 0).be32(0).payload(16);
  nd.bytes({1, 1, 2, 0, 0, 0, 0, 9, 2, 1, 2, 0, 0, 0, 0, 8});
  const std::vector<std::vector<uint8_t>> frames = {
      FrameBuilder().ethernet(0x8100).vlan(5, 0x0800).ipv4(6).tcp(1, 2).payload(9).frame(),
      FrameBuilder().ethernet(0x0800).ipv4(17).udp(1, 2).payload(9).frame(),
      FrameBuilder().ethernet(0x0800).ipv4(132).sctp(1, 2).payload(12).frame(),
      FrameBuilder().ethernet(0x0800).ipv4(1).icmp(8, 0).payload(40).frame(),
      FrameBuilder().ethernet(0x86dd).ipv6(6).tcp(1, 2).frame(),
      FrameBuilder().ethernet(0x0806).arp(1).frame(),
      FrameBuilder().ethernet(0x8847).mpls(1, 2, true, 3).payload(30).frame(),
      FrameBuilder().ethernet(0x88e7).be32(5).ethernet(0x0800).payload(30).frame(),
      nd.frame(),
  };
  std::mt19937 random(7);
  size_t changes[kFieldCount] = {};
  for (int round = 0; round < 50; ++round) {
    for (const auto& frame : frames) {
      for (const FieldInfo& entry : detail::kFields) {
        const SetField set = set_field_for(entry.field);
        if (set == nullptr || no_header(entry.field)) continue;
        TestPacket packet(frame);
        FlowKey values{};
        ParsedPacket parsed;
        refresh(Depth::full, packet.mbuf(), values, parsed);
        uint8_t value[16];
        for (size_t i = 0; i < entry.bytes; ++i) {
          value[i] = static_cast<uint8_t>(random()) & Match::full_mask_byte(entry, i);
        }
        const FlowKey before = values;
        const bool changed = set(packet.mbuf(), parsed, values, value);
        FlowKey again{};
        ParsedPacket parsed_again;
        refresh(Depth::full, packet.mbuf(), again, parsed_again);
        ASSERT_EQ(std::memcmp(&values, &again, sizeof values), 0) << entry.name;
        ASSERT_EQ(std::memcmp(&parsed, &parsed_again, sizeof parsed), 0) << entry.name;
        if (!changed) {
          ASSERT_EQ(std::memcmp(&before, &again, sizeof values), 0) << entry.name;
        }
        changes[static_cast<size_t>(entry.field)] += changed ? 1 : 0;
      }
    }
  }
  for (const FieldInfo& entry : detail::kFields) {
    if (set_field_for(entry.field) != nullptr && !no_header(entry.field)) {
      EXPECT_GT(changes[static_cast<size_t>(entry.field)], 0u) << entry.name;
    }
  }
}

TEST(SetFieldTest, TunnelIdIsNoHeader) {
  TestPacket packet(FrameBuilder().ethernet(0x0806).arp(1).frame());
  FlowKey values{};
  ParsedPacket parsed;
  const uint8_t id[8] = {0, 0, 0, 0, 0, 0, 0, 42};
  ASSERT_TRUE(set_field_for(Field::tunnel_id)(packet.mbuf(), parsed, values, id));
  EXPECT_EQ(packet::swap64(values.tunnel_id), 42u);
}

}  // namespace
}  // namespace headrace::match
