// SPDX-License-Identifier: Apache-2.0
// Editing: the packet after an edit is the one that would have been built that way.
#include "packet/edit.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "packet/test_packet.h"

namespace headrace::packet {
namespace {

/// A packet with its parse, and an edit applied to it.
struct Edited {
  explicit Edited(const std::vector<uint8_t>& frame) : packet(frame) {
    parsed = parse(frame, Depth::full);
  }
  rte_mbuf* mbuf() { return packet.mbuf(); }
  TestPacket packet;
  ParsedPacket parsed;
};

/// The checksum over an IPv4 header, its own included; 0 if all is well.
uint16_t ip_residue(const std::vector<uint8_t>& frame, size_t l3) {
  return checksum(std::span(frame).subspan(l3, 20));
}

FrameBuilder udp4(FrameBuilder builder) {
  return builder.ipv4(kProtoUdp, 0x20).udp(1000, 2000).payload(20);
}

TEST(EditTagsTest, PushVlanCopiesVidAndPriority) {
  Edited p(udp4(FrameBuilder().ethernet(0x0800)).frame());
  ASSERT_TRUE(push_vlan(p.mbuf(), p.parsed, 0x8100, Depth::full));
  EXPECT_EQ(p.packet.frame(), udp4(FrameBuilder().ethernet(0x8100).vlan(0, 0x0800)).frame());
  const uint8_t vid[] = {0x10, 0x64};
  const uint8_t pcp = 3;
  ASSERT_TRUE(set_vlan_vid(p.mbuf(), p.parsed, vid));
  ASSERT_TRUE(set_vlan_pcp(p.mbuf(), p.parsed, &pcp));
  ASSERT_TRUE(push_vlan(p.mbuf(), p.parsed, 0x88a8, Depth::full));
  EXPECT_EQ(
      p.packet.frame(),
      udp4(FrameBuilder().ethernet(0x88a8).vlan(0x6064, 0x8100).vlan(0x6064, 0x0800)).frame());
  EXPECT_EQ(p.parsed.vlan_tags, 2);
  EXPECT_EQ(p.parsed.l3, 22);
  ASSERT_TRUE(pop_vlan(p.mbuf(), p.parsed, Depth::full));
  ASSERT_TRUE(pop_vlan(p.mbuf(), p.parsed, Depth::full));
  EXPECT_EQ(p.packet.frame(), udp4(FrameBuilder().ethernet(0x0800)).frame());
  EXPECT_FALSE(pop_vlan(p.mbuf(), p.parsed, Depth::full));
}

TEST(EditTagsTest, PushMplsTakesTheTtlOfIp) {
  const auto plain = udp4(FrameBuilder().ethernet(0x0800)).frame();
  Edited p(plain);
  ASSERT_TRUE(push_mpls(p.mbuf(), p.parsed, 0x8847, Depth::full));
  EXPECT_EQ(p.packet.frame(), udp4(FrameBuilder().ethernet(0x8847).mpls(0, 0, true, 64)).frame());
  const uint8_t label[] = {0, 1, 2, 3};
  const uint8_t tc = 5;
  ASSERT_TRUE(set_mpls_label(p.mbuf(), p.parsed, label));
  ASSERT_TRUE(set_mpls_tc(p.mbuf(), p.parsed, &tc));
  ASSERT_TRUE(push_mpls(p.mbuf(), p.parsed, 0x8847, Depth::full));
  EXPECT_EQ(
      p.packet.frame(),
      udp4(FrameBuilder().ethernet(0x8847).mpls(0x10203, 5, false, 64).mpls(0x10203, 5, true, 64))
          .frame());
  ASSERT_TRUE(pop_mpls(p.mbuf(), p.parsed, 0x8847, Depth::full));
  ASSERT_TRUE(pop_mpls(p.mbuf(), p.parsed, 0x0800, Depth::full));
  EXPECT_EQ(p.packet.frame(), plain);
  EXPECT_EQ(p.parsed.l4, 34);
}

/// More tags than are parsed, frames cut off anywhere: what is known of a packet is what a parse of
/// it finds.
TEST(EditTagsTest, VlanTagsLeaveWhatAParseFinds) {
  const std::vector<uint8_t> whole =
      udp4(FrameBuilder().ethernet(0x8100).vlan(0x6064, 0x0800)).frame();
  const auto check = [](Edited& p) {
    const ParsedPacket found = parse(frame_of(p.mbuf()), Depth::full);
    EXPECT_EQ(std::memcmp(&found, &p.parsed, sizeof found), 0);
  };
  for (size_t length = 14; length <= whole.size(); ++length) {
    Edited p({whole.begin(), whole.begin() + static_cast<long>(length)});
    for (int pushed = 0; pushed < kMaxVlanTags + 2; ++pushed) {
      if (!push_vlan(p.mbuf(), p.parsed, 0x88a8, Depth::full)) break;
      check(p);
    }
    while (pop_vlan(p.mbuf(), p.parsed, Depth::full)) check(p);
  }
}

TEST(EditTagsTest, MplsGoesBehindTheVlanTag) {
  Edited p(udp4(FrameBuilder().ethernet(0x8100).vlan(7, 0x0800)).frame());
  ASSERT_TRUE(push_mpls(p.mbuf(), p.parsed, 0x8847, Depth::full));
  EXPECT_EQ(p.packet.frame(),
            udp4(FrameBuilder().ethernet(0x8100).vlan(7, 0x8847).mpls(0, 0, true, 64)).frame());
}

TEST(EditTagsTest, PushPbbWrapsTheFrame) {
  const auto plain = udp4(FrameBuilder().ethernet(0x0800)).frame();
  Edited p(plain);
  ASSERT_TRUE(push_pbb(p.mbuf(), p.parsed, Depth::full));
  const uint8_t isid[] = {1, 2, 3};
  const uint8_t uca = 1;
  ASSERT_TRUE(set_pbb_isid(p.mbuf(), p.parsed, isid));
  ASSERT_TRUE(set_pbb_uca(p.mbuf(), p.parsed, &uca));
  EXPECT_EQ(p.packet.frame(),
            udp4(FrameBuilder().ethernet(0x88e7).be32(0x08010203).ethernet(0x0800)).frame());
  ASSERT_TRUE(push_pbb(p.mbuf(), p.parsed, Depth::full));
  EXPECT_EQ(load_be32(&p.packet.frame()[14]), 0x00010203u) << "the I-SID is copied";
  ASSERT_TRUE(pop_pbb(p.mbuf(), p.parsed, Depth::full));
  ASSERT_TRUE(pop_pbb(p.mbuf(), p.parsed, Depth::full));
  EXPECT_EQ(p.packet.frame(), plain);
  EXPECT_FALSE(pop_pbb(p.mbuf(), p.parsed, Depth::full));
}

TEST(EditTagsTest, WithoutHeadroomNothingChanges) {
  const auto plain = udp4(FrameBuilder().ethernet(0x0800)).frame();
  TestPacket packet(plain, 3);
  ParsedPacket parsed = parse(plain, Depth::full);
  EXPECT_FALSE(push_vlan(packet.mbuf(), parsed, 0x8100, Depth::full));
  EXPECT_FALSE(push_mpls(packet.mbuf(), parsed, 0x8847, Depth::full));
  EXPECT_FALSE(push_pbb(packet.mbuf(), parsed, Depth::full));
  EXPECT_EQ(packet.frame(), plain);
  EXPECT_EQ(parsed.l3, 14);
}

TEST(EditTtlTest, DecrementKeepsTheChecksumRight) {
  Edited p(udp4(FrameBuilder().ethernet(0x0800)).frame());
  for (int ttl = 63; ttl >= 1; --ttl) {
    ASSERT_EQ(dec_nw_ttl(p.mbuf(), p.parsed), TtlResult::done);
    const auto frame = p.packet.frame();
    ASSERT_EQ(frame[14 + 8], ttl);
    ASSERT_EQ(ip_residue(frame, 14), 0);
  }
  EXPECT_EQ(dec_nw_ttl(p.mbuf(), p.parsed), TtlResult::expired);
  ASSERT_TRUE(set_nw_ttl(p.mbuf(), p.parsed, 200));
  EXPECT_EQ(ip_residue(p.packet.frame(), 14), 0);
}

TEST(EditTtlTest, DecrementAtTheCarryOfTheChecksum) {
  // All identifications: so every checksum occurs, 0xfeff and 0xffff among them.
  auto frame = udp4(FrameBuilder().ethernet(0x0800)).frame();
  for (uint32_t id = 0; id < 0x10000; ++id) {
    store_be16(&frame[14 + 4], static_cast<uint16_t>(id));
    store_raw16(&frame[14 + 10], 0);
    store_raw16(&frame[14 + 10], ip_residue(frame, 14));
    Edited p(frame);
    ASSERT_EQ(dec_nw_ttl(p.mbuf(), p.parsed), TtlResult::done);
    ASSERT_EQ(ip_residue(p.packet.frame(), 14), 0) << id;
  }
}

TEST(EditTtlTest, Ipv6AndAbsent) {
  Edited six(FrameBuilder().ethernet(0x86dd).ipv6(kProtoUdp).udp(1, 2).frame());
  EXPECT_EQ(dec_nw_ttl(six.mbuf(), six.parsed), TtlResult::done);
  EXPECT_EQ(six.packet.frame()[14 + 7], 63);
  Edited arp(FrameBuilder().ethernet(0x0806).arp(1).frame());
  EXPECT_EQ(dec_nw_ttl(arp.mbuf(), arp.parsed), TtlResult::absent);
  EXPECT_EQ(dec_mpls_ttl(arp.mbuf(), arp.parsed), TtlResult::absent);
}

TEST(EditTtlTest, CopyBetweenMplsAndIp) {
  Edited p(udp4(FrameBuilder().ethernet(0x8847).mpls(1, 0, true, 9)).frame());
  ASSERT_TRUE(copy_ttl_in(p.mbuf(), p.parsed));
  EXPECT_EQ(p.packet.frame()[18 + 8], 9);
  EXPECT_EQ(ip_residue(p.packet.frame(), 18), 0);
  EXPECT_FALSE(set_nw_ttl(p.mbuf(), p.parsed, 77)) << "IP below MPLS is out of reach";
  ASSERT_TRUE(set_mpls_ttl(p.mbuf(), p.parsed, 50));
  ASSERT_EQ(dec_mpls_ttl(p.mbuf(), p.parsed), TtlResult::done);
  EXPECT_EQ(p.packet.frame()[17], 49);
  ASSERT_TRUE(copy_ttl_out(p.mbuf(), p.parsed));
  EXPECT_EQ(p.packet.frame()[17], 9);
}

TEST(EditTtlTest, CopyBetweenTwoLabels) {
  Edited p(FrameBuilder().ethernet(0x8847).mpls(1, 0, false, 9).mpls(2, 0, true, 30).frame());
  ASSERT_TRUE(copy_ttl_out(p.mbuf(), p.parsed));
  EXPECT_EQ(p.packet.frame()[17], 30);
  ASSERT_TRUE(set_mpls_ttl(p.mbuf(), p.parsed, 5));
  ASSERT_TRUE(copy_ttl_in(p.mbuf(), p.parsed));
  EXPECT_EQ(p.packet.frame()[21], 5);
}

/// Sets a field and checks IP's and L4's checksums; returns the frame.
std::vector<uint8_t> set_and_check(const std::vector<uint8_t>& frame,
                                   const std::function<bool(rte_mbuf*, const ParsedPacket&)>& set) {
  Edited p(frame);
  EXPECT_TRUE(set(p.mbuf(), p.parsed));
  const auto after = p.packet.frame();
  const size_t l3 = p.parsed.l3;
  if (p.parsed.has(kIpv4)) {
    EXPECT_EQ(ip_residue(after, l3), 0);
  }
  const uint8_t proto = parse(after, Depth::full).ip_proto;
  if (p.parsed.ip_proto == kProtoSctp) {
    auto copy = after;
    store_raw32(&copy[p.parsed.l4 + 8u], 0);
    EXPECT_EQ(load_raw32(&after[p.parsed.l4 + 8u]),
              crc32c_portable(std::span(copy).subspan(p.parsed.l4)));
  } else if (p.parsed.ip_proto == kProtoIcmp) {
    EXPECT_EQ(checksum(std::span(after).subspan(p.parsed.l4)), 0);
  } else {
    EXPECT_EQ(l4_residue(after, l3, p.parsed.l4, proto), 0);
  }
  EXPECT_NE(after, frame);
  return after;
}

constexpr uint8_t kAddress4[] = {192, 168, 255, 7};
constexpr uint8_t kAddress6[] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
constexpr uint8_t kPort[] = {0xab, 0xcd};
constexpr uint8_t kDscp[] = {46};

/// A checksum that was wrong is as wrong afterwards: the receiver sees that the packet was damaged.
TEST(EditFieldsTest, DamageOfAnSctpPacketStaysVisible) {
  constexpr uint32_t kDamage = 0x00010080;
  for (const size_t payload : {0, 1, 21, 64, 1000, 8191}) {
    FrameBuilder builder;
    auto frame = builder.ethernet(0x0800).ipv4(kProtoSctp, 0).sctp(1, 2).payload(payload).frame();
    Edited whole(frame);
    const size_t at = whole.parsed.l4 + offsetof(SctpHeader, checksum);
    store_raw32(&frame[at], load_raw32(&frame[at]) ^ kDamage);
    for (const auto& set : {set_l4_src, set_l4_dst}) {
      Edited p(frame);
      ASSERT_TRUE(set(p.mbuf(), p.parsed, kProtoSctp, kPort));
      auto after = p.packet.frame();
      const uint32_t found = load_raw32(&after[at]);
      store_raw32(&after[at], 0);
      EXPECT_EQ(found ^ kDamage, crc32c_portable(std::span(after).subspan(p.parsed.l4)));
    }
  }
}

TEST(EditFieldsTest, Ipv4FieldsKeepChecksumsRight) {
  for (const uint8_t proto : {kProtoTcp, kProtoUdp, kProtoSctp}) {
    FrameBuilder builder;
    builder.ethernet(0x0800).ipv4(proto, 0x03);
    if (proto == kProtoTcp) builder.tcp(1, 2);
    if (proto == kProtoUdp) builder.udp(1, 2);
    if (proto == kProtoSctp) builder.sctp(1, 2);
    const auto frame = builder.payload(21).frame();
    using std::placeholders::_1;
    using std::placeholders::_2;
    set_and_check(frame, std::bind(set_ipv4_src, _1, _2, kAddress4));
    set_and_check(frame, std::bind(set_ipv4_dst, _1, _2, kAddress4));
    set_and_check(frame, std::bind(set_l4_src, _1, _2, proto, kPort));
    set_and_check(frame, std::bind(set_l4_dst, _1, _2, proto, kPort));
    const auto marked = set_and_check(frame, std::bind(set_ip_dscp, _1, _2, kDscp));
    EXPECT_EQ(marked[15], 46 << 2 | 3) << "ECN stays";
    const uint8_t ecn = 1;
    const auto ecn_marked = set_and_check(frame, std::bind(set_ip_ecn, _1, _2, &ecn));
    EXPECT_EQ(ecn_marked[15], 1);
    Edited p(frame);
    EXPECT_FALSE(set_l4_src(p.mbuf(), p.parsed, kProtoIcmp, kPort));
    EXPECT_FALSE(set_ipv6_src(p.mbuf(), p.parsed, kAddress6));
  }
}

TEST(EditFieldsTest, Ipv6FieldsKeepChecksumsRight) {
  for (const uint8_t proto : {kProtoTcp, kProtoUdp}) {
    FrameBuilder builder;
    builder.ethernet(0x86dd).ipv6(kProtoHopByHop, 0xff, 0x12345).extension(proto);
    if (proto == kProtoTcp) builder.tcp(1, 2);
    if (proto == kProtoUdp) builder.udp(1, 2);
    const auto frame = builder.payload(20).frame();
    using std::placeholders::_1;
    using std::placeholders::_2;
    set_and_check(frame, std::bind(set_ipv6_src, _1, _2, kAddress6));
    set_and_check(frame, std::bind(set_ipv6_dst, _1, _2, kAddress6));
    set_and_check(frame, std::bind(set_l4_dst, _1, _2, proto, kPort));
    const uint8_t label[] = {0, 0x0a, 0xbc, 0xde};
    const auto labelled = set_and_check(frame, std::bind(set_ipv6_flabel, _1, _2, label));
    EXPECT_EQ(load_be32(&labelled[14]), 0x6ffabcdeu);
    const auto marked = set_and_check(frame, std::bind(set_ip_dscp, _1, _2, kDscp));
    EXPECT_EQ(load_be32(&marked[14]), 0x6bb12345u);
  }
}

TEST(EditFieldsTest, SetIpProtoRepairsTheHeaderThatWasParsed) {
  using std::placeholders::_1;
  using std::placeholders::_2;
  const uint8_t proto = 0x33;
  const auto four = FrameBuilder().ethernet(0x0800).ipv4(kProtoTcp).tcp(1, 2).payload(9).frame();
  EXPECT_EQ(set_and_check(four, std::bind(set_ip_proto, _1, _2, &proto))[23], proto);
  const uint8_t other = kProtoGre;
  const auto six = FrameBuilder()
                       .ethernet(0x86dd)
                       .ipv6(kProtoDestOptions)
                       .extension(kProtoTcp)
                       .tcp(1, 2)
                       .payload(9)
                       .frame();
  EXPECT_EQ(set_and_check(six, std::bind(set_ip_proto, _1, _2, &other))[54], other);
}

TEST(EditFieldsTest, UdpWithoutChecksumStaysWithout) {
  auto frame = udp4(FrameBuilder().ethernet(0x0800)).frame();
  store_raw16(&frame[34 + 6], 0);
  Edited p(frame);
  ASSERT_TRUE(set_ipv4_src(p.mbuf(), p.parsed, kAddress4));
  ASSERT_TRUE(set_l4_dst(p.mbuf(), p.parsed, kProtoUdp, kPort));
  EXPECT_EQ(load_raw16(&p.packet.frame()[34 + 6]), 0);
}

TEST(EditFieldsTest, ARoutingHeaderKeepsTheDestinationOutOfThePseudoHeader) {
  auto frame =
      FrameBuilder().ethernet(0x86dd).ipv6(kProtoRouting).extension(kProtoTcp).tcp(1, 2).frame();
  frame[14 + 40 + 3] = 1;  // one segment left
  Edited p(frame);
  const uint16_t before = load_raw16(&frame[p.parsed.l4 + 16u]);
  ASSERT_TRUE(set_ipv6_dst(p.mbuf(), p.parsed, kAddress6));
  EXPECT_EQ(load_raw16(&p.packet.frame()[p.parsed.l4 + 16u]), before);
}

TEST(EditFieldsTest, Icmp) {
  using std::placeholders::_1;
  using std::placeholders::_2;
  const uint8_t value = 8;
  const auto four = FrameBuilder().ethernet(0x0800).ipv4(kProtoIcmp).icmp(0, 0).payload(8).frame();
  set_and_check(four, std::bind(set_icmp_type, _1, _2, kProtoIcmp, &value));
  set_and_check(four, std::bind(set_icmp_code, _1, _2, kProtoIcmp, &value));
  const auto six =
      FrameBuilder().ethernet(0x86dd).ipv6(kProtoIcmpv6).icmp(128, 0).payload(8).frame();
  set_and_check(six, std::bind(set_icmp_type, _1, _2, kProtoIcmpv6, &value));
  set_and_check(six, std::bind(set_ipv6_src, _1, _2, kAddress6));
}

TEST(EditFieldsTest, IcmpOfTheOtherIpIsNone) {
  const uint8_t value = 8;
  const auto six_in_four =
      FrameBuilder().ethernet(0x0800).ipv4(kProtoIcmpv6).icmp(128, 0).payload(8).frame();
  Edited p(six_in_four);
  EXPECT_FALSE(set_icmp_code(p.mbuf(), p.parsed, kProtoIcmpv6, &value));
  const auto four_in_six =
      FrameBuilder().ethernet(0x86dd).ipv6(kProtoIcmp).icmp(8, 0).payload(8).frame();
  Edited q(four_in_six);
  EXPECT_FALSE(set_icmp_code(q.mbuf(), q.parsed, kProtoIcmp, &value));
}

TEST(EditFieldsTest, NeighborDiscovery) {
  using std::placeholders::_1;
  using std::placeholders::_2;
  FrameBuilder builder;
  builder.ethernet(0x86dd).ipv6(kProtoIcmpv6).icmp(kIcmpv6NeighborSolicitation, 0).be32(0);
  builder.payload(16).bytes({kNdSourceLinkAddress, 1, 2, 0, 0, 0, 0, 9});
  const auto frame = builder.bytes({kNdTargetLinkAddress, 1, 2, 0, 0, 0, 0, 8}).frame();
  const auto target = set_and_check(frame, std::bind(set_nd_target, _1, _2, kAddress6));
  EXPECT_TRUE(std::equal(kAddress6, kAddress6 + 16, &target[54 + 8]));
  const auto sll = set_and_check(frame, std::bind(set_nd_sll, _1, _2, kAddress6));
  EXPECT_TRUE(std::equal(kAddress6, kAddress6 + 6, &sll[54 + 26]));
  const auto tll = set_and_check(frame, std::bind(set_nd_tll, _1, _2, kAddress6));
  EXPECT_TRUE(std::equal(kAddress6, kAddress6 + 6, &tll[54 + 34]));
}

TEST(EditFieldsTest, ArpAndEthernet) {
  Edited p(FrameBuilder().ethernet(0x0806).arp(1).frame());
  const uint8_t op[] = {0, 2};
  ASSERT_TRUE(set_arp_op(p.mbuf(), p.parsed, op));
  ASSERT_TRUE(set_arp_spa(p.mbuf(), p.parsed, kAddress4));
  ASSERT_TRUE(set_arp_tpa(p.mbuf(), p.parsed, kAddress4));
  ASSERT_TRUE(set_arp_sha(p.mbuf(), p.parsed, kAddress6));
  ASSERT_TRUE(set_arp_tha(p.mbuf(), p.parsed, kAddress6));
  ASSERT_TRUE(set_eth_dst(p.mbuf(), p.parsed, kAddress6));
  ASSERT_TRUE(set_eth_src(p.mbuf(), p.parsed, kAddress6));
  FrameBuilder expected;
  for (int i = 0; i < 2; ++i) expected.bytes(std::span(kAddress6).first(6));
  expected.be16(0x0806).be16(1).be16(0x0800).bytes({6, 4, 0, 2});
  for (int i = 0; i < 2; ++i) expected.bytes(std::span(kAddress6).first(6)).bytes(kAddress4);
  EXPECT_EQ(p.packet.frame(), expected.frame());
}

}  // namespace
}  // namespace headrace::packet
