// SPDX-License-Identifier: Apache-2.0
#include "packet/parse.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "packet/test_packet.h"

namespace headrace::packet {
namespace {

ParsedPacket parse_all(const FrameBuilder& builder) {
  return parse(builder.frame(), Depth::full);
}

TEST(ParseTest, UntaggedUdp) {
  const ParsedPacket p =
      parse_all(FrameBuilder().ethernet(0x0800).ipv4(kProtoUdp).udp(1, 2).payload(18));
  EXPECT_EQ(p.l2_end, 14);
  EXPECT_EQ(p.l3, 14);
  EXPECT_EQ(p.l4, 34);
  EXPECT_EQ(p.eth_type, kTypeIpv4);
  EXPECT_EQ(p.ip_proto, kProtoUdp);
  EXPECT_EQ(p.flags, kIpv4);
}

TEST(ParseTest, DepthLimitsTheWork) {
  const auto frame = FrameBuilder().ethernet(0x0800).ipv4(kProtoUdp).udp(1, 2).frame();
  EXPECT_EQ(parse(frame, Depth::l2).l3, 0);
  EXPECT_EQ(parse(frame, Depth::l3).l3, 14);
  EXPECT_EQ(parse(frame, Depth::l3).l4, 0);
  EXPECT_EQ(parse(frame, Depth::l4).l4, 34);
}

TEST(ParseTest, TwoTags) {
  const ParsedPacket p = parse_all(FrameBuilder()
                                       .ethernet(0x88a8)
                                       .vlan(100, 0x8100)
                                       .vlan(200, 0x86dd)
                                       .ipv6(kProtoTcp)
                                       .tcp(1, 2));
  EXPECT_EQ(p.vlan_tags, 2);
  EXPECT_EQ(p.l2_end, 22);
  EXPECT_EQ(p.eth_type, kTypeIpv6);
  EXPECT_EQ(p.l4, 62);
}

TEST(ParseTest, TagsBeyondTheLimitArePayload) {
  FrameBuilder builder;
  builder.ethernet(0x8100);
  for (int i = 0; i < 6; ++i) builder.vlan(1, 0x8100);
  const ParsedPacket p = parse_all(builder.vlan(1, 0x0800).ipv4(kProtoUdp).udp(1, 2));
  EXPECT_EQ(p.vlan_tags, kMaxVlanTags);
  EXPECT_EQ(p.eth_type, kTypeVlan);
  EXPECT_EQ(p.l3, 0);
}

TEST(ParseTest, NothingBelowMpls) {
  const ParsedPacket p =
      parse_all(FrameBuilder().ethernet(0x8847).mpls(5, 0, true, 9).ipv4(kProtoUdp).udp(1, 2));
  EXPECT_EQ(p.flags, kMpls);
  EXPECT_EQ(p.l2_end, 14);
  EXPECT_EQ(p.l3, 0);
}

TEST(ParseTest, PbbItag) {
  const ParsedPacket p = parse_all(
      FrameBuilder().ethernet(0x88e7).be32(100).ethernet(0x0800).ipv4(kProtoUdp).udp(1, 2));
  EXPECT_EQ(p.flags, kPbb);
  EXPECT_EQ(p.l2_end, 14);
}

TEST(ParseTest, FragmentsHaveL4OnlyInTheFirst) {
  const ParsedPacket first =
      parse_all(FrameBuilder().ethernet(0x0800).ipv4(kProtoUdp, 0, 0x2000).udp(1, 2));
  EXPECT_EQ(first.flags, kIpv4 | kFragment);
  EXPECT_EQ(first.l4, 34);
  const ParsedPacket later =
      parse_all(FrameBuilder().ethernet(0x0800).ipv4(kProtoUdp, 0, 0x0010).udp(1, 2));
  EXPECT_EQ(later.flags, kIpv4 | kFragment | kLaterFragment);
  EXPECT_EQ(later.l4, 0);
  EXPECT_EQ(later.ip_proto, kProtoUdp);
}

TEST(ParseTest, Ipv6FragmentsToo) {
  const ParsedPacket first = parse_all(
      FrameBuilder().ethernet(0x86dd).ipv6(kProtoFragment).fragment(kProtoUdp, 1).udp(1, 2));
  EXPECT_EQ(first.flags, kIpv6 | kFragment);
  EXPECT_EQ(first.l4, 14 + 40 + 8);
  EXPECT_EQ(first.ipv6_exthdr, kExthdrFragment);
  const ParsedPacket later = parse_all(
      FrameBuilder().ethernet(0x86dd).ipv6(kProtoFragment).fragment(kProtoUdp, 0x80).udp(1, 2));
  EXPECT_EQ(later.flags, kIpv6 | kFragment | kLaterFragment);
  EXPECT_EQ(later.l4, 0);
  EXPECT_EQ(later.ip_proto, kProtoUdp);
}

TEST(ParseTest, ExtensionHeaderBits) {
  const auto bits = [](std::initializer_list<uint8_t> chain) {
    FrameBuilder builder;
    builder.ethernet(0x86dd).ipv6(*chain.begin());
    for (const uint8_t* next = chain.begin() + 1; next != chain.end(); ++next) {
      // An authentication header of 8 octets has length (0 + 2) * 4.
      builder.extension(*next);
    }
    return parse_all(builder.udp(1, 2)).ipv6_exthdr;
  };
  EXPECT_EQ(bits({kProtoUdp}), 0);
  EXPECT_EQ(bits({kProtoHopByHop, kProtoAuth, kProtoUdp}), kExthdrHop | kExthdrAuth);
  EXPECT_EQ(bits({kProtoNoNext}), kExthdrNoNext);
  EXPECT_EQ(bits({kProtoEsp}), kExthdrEsp);
  EXPECT_EQ(bits({kProtoDestOptions, kProtoRouting, kProtoDestOptions, kProtoUdp}),
            kExthdrDest | kExthdrRouter);
  EXPECT_EQ(bits({kProtoHopByHop, kProtoHopByHop, kProtoUdp}), kExthdrHop | kExthdrUnrepeated);
  EXPECT_EQ(bits({kProtoRouting, kProtoHopByHop, kProtoUdp}),
            kExthdrHop | kExthdrRouter | kExthdrUnsequenced);
  EXPECT_EQ(bits({kProtoDestOptions, kProtoDestOptions, kProtoDestOptions, kProtoUdp}),
            kExthdrDest | kExthdrUnrepeated);
}

TEST(ParseTest, NeighborDiscoveryOptions) {
  FrameBuilder builder;
  builder.ethernet(0x86dd).ipv6(kProtoIcmpv6).icmp(kIcmpv6NeighborSolicitation, 0).be32(0);
  builder.payload(16).bytes({kNdSourceLinkAddress, 1, 2, 0, 0, 0, 0, 9});
  const ParsedPacket p = parse_all(builder);
  EXPECT_EQ(p.l4, 54);
  EXPECT_EQ(p.nd_source_link, 24 + 2);
  EXPECT_EQ(p.nd_target_link, 0);
}

TEST(ParseTest, PaddingIsNoPartOfThePacket) {
  // A UDP header that lies in Ethernet's padding is not there.
  std::vector<uint8_t> frame = FrameBuilder().ethernet(0x0800).ipv4(kProtoUdp).frame();
  frame.resize(60);
  const ParsedPacket p = parse(frame, Depth::full);
  EXPECT_EQ(p.l3, 14);
  EXPECT_EQ(p.l4, 0);
  EXPECT_TRUE(p.has(kTruncatedL4));
}

TEST(ParseTest, LiesAreAbsent) {
  std::vector<uint8_t> frame = FrameBuilder().ethernet(0x0800).ipv4(kProtoUdp).udp(1, 2).frame();
  const auto with = [&frame](size_t at, uint8_t value) {
    std::vector<uint8_t> changed = frame;
    changed[at] = value;
    return parse(changed, Depth::full);
  };
  for (const ParsedPacket& p : {with(14, 0x65), with(14, 0x44), with(17, 19)}) {
    EXPECT_EQ(p.l3, 0);
    EXPECT_EQ(p.flags, kBadL3);
  }
  EXPECT_EQ(with(14, 0x4f).flags, kBadL3);  // header longer than total length
}

/// Every offset that is set lies inside with its header, whatever is cut off: copies of exact size
/// let AddressSanitizer see a read beyond the end.
TEST(ParseTest, AnyTruncationIsSafe) {
  std::vector<std::vector<uint8_t>> frames = {
      FrameBuilder().ethernet(0x8100).vlan(5, 0x0800).ipv4(kProtoTcp).tcp(1, 2).frame(),
      FrameBuilder().ethernet(0x0806).arp(1).frame(),
      FrameBuilder().ethernet(0x8847).mpls(1, 1, true, 1).frame(),
      FrameBuilder().ethernet(0x88e7).be32(1).ethernet(0x0800).frame(),
      FrameBuilder()
          .ethernet(0x86dd)
          .ipv6(kProtoHopByHop)
          .extension(kProtoAuth)
          .extension(kProtoFragment)
          .fragment(kProtoIcmpv6, 0)
          .icmp(kIcmpv6NeighborAdvertisement, 0)
          .payload(20)
          .bytes({kNdTargetLinkAddress, 1, 1, 2, 3, 4, 5, 6})
          .frame(),
  };
  for (const auto& frame : frames) {
    for (size_t size = 0; size <= frame.size(); ++size) {
      const auto cut = std::make_unique<uint8_t[]>(size);
      std::copy_n(frame.begin(), size, cut.get());
      for (const Depth depth : {Depth::l2, Depth::l3, Depth::l4, Depth::full}) {
        const ParsedPacket p = parse({cut.get(), size}, depth);
        EXPECT_LE(p.l2_end, size);
        if (p.l3 != 0) {
          EXPECT_LE(p.l3 + 20u, size);
        }
        if (p.l4 != 0) {
          EXPECT_LE(p.l4 + l4_header_size(p.ip_proto), size);
        }
        if (p.nd_target_link != 0) {
          EXPECT_LE(p.l4 + p.nd_target_link + 6u, size);
        }
        if (size < 14) {
          EXPECT_EQ(p.flags, kTruncatedL2);
        }
      }
    }
  }
}

}  // namespace
}  // namespace headrace::packet
