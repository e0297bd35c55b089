// SPDX-License-Identifier: Apache-2.0
#include "packet/tunnel.h"

#include <gtest/gtest.h>

#include "packet/checksum.h"
#include "packet/edit.h"
#include "packet/test_packet.h"

namespace headrace::packet {
namespace {

using Frame = std::vector<uint8_t>;

TunnelSpec spec_of(TunnelKind kind, bool ipv6 = false) {
  TunnelSpec spec;
  spec.kind = kind;
  spec.ipv6 = ipv6;
  spec.id = 0x00abcd;
  spec.src_mac = {2, 0, 0, 0, 1, 1};
  spec.dst_mac = {2, 0, 0, 0, 1, 2};
  spec.local = {192, 168, 0, 1};
  spec.remote = {192, 168, 0, 2};
  if (ipv6) {
    spec.local = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    spec.remote = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  }
  return spec;
}

Frame inner_frame() {
  return FrameBuilder().ethernet(0x0800).ipv4(kProtoUdp, 0xb8).udp(5, 6).payload(40).frame();
}

struct Packet {
  explicit Packet(const Frame& frame, uint16_t headroom = TestPacket::kHeadroom,
                  uint16_t tailroom = 0)
      : packet(frame, headroom, tailroom), parsed(parse(frame_of(packet.mbuf()), Depth::full)) {}
  rte_mbuf* mbuf() { return packet.mbuf(); }
  void reparse() { parsed = parse(frame_of(packet.mbuf()), Depth::full); }
  TestPacket packet;
  ParsedPacket parsed;
};

Frame pushed(const TunnelSpec& spec, const Frame& inner, uint32_t entropy = 0) {
  Packet p(inner);
  EXPECT_EQ(TunnelHeader(spec).push(p.mbuf(), p.parsed, spec.id, entropy), TunnelResult::done);
  return p.packet.frame();
}

class TunnelTest : public testing::TestWithParam<std::tuple<TunnelKind, bool, bool>> {};

TEST_P(TunnelTest, WhatIsPushedIsPopped) {
  const auto [kind, ipv6, checksummed] = GetParam();
  TunnelSpec spec = spec_of(kind, ipv6);
  spec.checksum = checksummed;
  const Frame inner = inner_frame();
  Packet p(pushed(spec, inner, 0xffffffff));
  EXPECT_EQ(p.parsed.ip_proto, kind == TunnelKind::gre ? kProtoGre : kProtoUdp);
  EXPECT_EQ(p.parsed.flags & kMalformed, 0);
  const TunnelFound found = find_tunnel(p.mbuf(), p.parsed, kind, default_port(kind));
  ASSERT_EQ(found.result, TunnelResult::done);
  EXPECT_TRUE(found.has_key);
  EXPECT_EQ(found.id, spec.id);
  EXPECT_EQ(found.ttl, 64);
  ASSERT_TRUE(pop_tunnel(p.mbuf(), found));
  Frame expected = inner;
  if (kind == TunnelKind::gtpu) std::fill_n(expected.begin(), 12, 0);
  EXPECT_EQ(p.packet.frame(), expected);
}

INSTANTIATE_TEST_SUITE_P(All, TunnelTest,
                         testing::Combine(testing::Values(TunnelKind::vxlan, TunnelKind::gre,
                                                          TunnelKind::gtpu),
                                          testing::Bool(), testing::Bool()));

TEST(TunnelPushTest, VxlanOnTheWire) {
  const Frame inner = inner_frame();
  const Frame frame = pushed(spec_of(TunnelKind::vxlan), inner, 0x80000000);
  ASSERT_EQ(frame.size(), inner.size() + 50);
  FrameBuilder outer;
  outer.bytes({2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 1}).be16(0x0800);
  outer.bytes({0x45, 0}).be16(static_cast<uint16_t>(inner.size() + 36)).be16(0).be16(0x4000);
  outer.bytes({64, 17}).be16(0).bytes({192, 168, 0, 1, 192, 168, 0, 2});
  // The entropy's highest 14 bits fill the dynamic range of ports.
  outer.be16(0xc000 | 0x2000).be16(4789).be16(static_cast<uint16_t>(inner.size() + 16)).be16(0);
  outer.bytes({8, 0, 0, 0, 0, 0xab, 0xcd, 0});
  Frame expected = outer.frame();
  store_raw16(&expected[24], checksum(std::span(expected).subspan(14, 20)));
  EXPECT_EQ(Frame(frame.begin(), frame.begin() + 50), expected);
  EXPECT_EQ(Frame(frame.begin() + 50, frame.end()), inner);
}

TEST(TunnelPushTest, GtpuCarriesTheIpPacketWithoutEthernetAndPadding) {
  Frame inner = FrameBuilder().ethernet(0x8100).vlan(5, 0x0800).ipv4(kProtoUdp).udp(5, 6).frame();
  inner.resize(60);  // padded
  const Frame frame = pushed(spec_of(TunnelKind::gtpu), inner);
  ASSERT_EQ(frame.size(), 14u + 20 + 8 + 8 + 28);
  EXPECT_EQ(Frame(frame.begin() + 50, frame.end()), Frame(inner.begin() + 18, inner.begin() + 46));
  EXPECT_EQ(Frame(frame.begin() + 42, frame.begin() + 50),
            (Frame{0x30, 255, 0, 28, 0, 0, 0xab, 0xcd}));
}

TEST(TunnelPushTest, GreOnTheWire) {
  const Frame inner = inner_frame();
  TunnelSpec spec = spec_of(TunnelKind::gre);
  Frame frame = pushed(spec, inner);
  EXPECT_EQ(Frame(frame.begin() + 34, frame.begin() + 42),
            (Frame{0x20, 0, 0x65, 0x58, 0, 0, 0xab, 0xcd}));
  spec.has_key = false;
  frame = pushed(spec, inner);
  EXPECT_EQ(Frame(frame.begin() + 34, frame.begin() + 38), (Frame{0, 0, 0x65, 0x58}));
  spec.layer3 = true;
  frame = pushed(spec, inner);
  EXPECT_EQ(Frame(frame.begin() + 34, frame.begin() + 38), (Frame{0, 0, 0x08, 0}));
  EXPECT_EQ(Frame(frame.begin() + 38, frame.end()), Frame(inner.begin() + 14, inner.end()));
}

TEST(TunnelPushTest, ChecksumsCoverWhatIsCarried) {
  TunnelSpec spec = spec_of(TunnelKind::vxlan);
  spec.checksum = true;
  const Frame four = pushed(spec, inner_frame());
  EXPECT_EQ(l4_residue(four, 14, 34, kProtoUdp), 0);
  spec = spec_of(TunnelKind::gtpu, true);
  spec.checksum = true;
  EXPECT_EQ(l4_residue(pushed(spec, inner_frame()), 14, 54, kProtoUdp), 0);
  spec = spec_of(TunnelKind::gre);
  spec.checksum = true;
  const Frame gre = pushed(spec, inner_frame());
  EXPECT_EQ(checksum(std::span(gre).subspan(34)), 0);
}

TEST(TunnelPushTest, InheritsFromTheInnerHeader) {
  TunnelSpec spec = spec_of(TunnelKind::vxlan);
  spec.inherit_tos = true;
  spec.inherit_ttl = true;
  Frame inner = inner_frame();
  inner[22] = 7;
  Frame frame = pushed(spec, inner);
  EXPECT_EQ(frame[15], 0xb8);
  EXPECT_EQ(frame[22], 7);
  EXPECT_EQ(checksum(std::span(frame).subspan(14, 20)), 0);
  spec.ipv6 = true;
  frame = pushed(spec, inner);
  EXPECT_EQ(load_be16(&frame[14]) >> 4 & 0xff, 0xb8);
  EXPECT_EQ(frame[21], 7);
}

TEST(TunnelPushTest, MovesThePacketWhereThereIsNoRoomBeforeIt) {
  const Frame inner = inner_frame();
  for (const TunnelKind kind : {TunnelKind::vxlan, TunnelKind::gre, TunnelKind::gtpu}) {
    for (const bool ipv6 : {false, true}) {
      TunnelSpec spec = spec_of(kind, ipv6);
      spec.inherit_tos = true;
      const Frame usual = pushed(spec, inner);
      Packet p(inner, 9, 200);
      ASSERT_EQ(TunnelHeader(spec).push(p.mbuf(), p.parsed, spec.id, 0), TunnelResult::done);
      // But for what differs from packet to packet: the identification and its checksum.
      Frame frame = p.packet.frame();
      ASSERT_EQ(frame.size(), usual.size());
      if (!ipv6) std::copy_n(&usual[18], 8, &frame[18]);
      EXPECT_EQ(frame, usual);
      EXPECT_EQ(rte_pktmbuf_headroom(p.mbuf()), 0);
    }
  }
  Packet tagged(inner, 3, 1);
  ASSERT_TRUE(push_vlan(tagged.mbuf(), tagged.parsed, 0x8100, Depth::full));
  EXPECT_EQ(tagged.packet.frame().size(), inner.size() + 4);
  EXPECT_TRUE(std::equal(inner.begin() + 12, inner.end(), tagged.packet.frame().begin() + 16));
  Packet shared(inner, 3, 1);
  rte_mbuf_refcnt_set(shared.mbuf(), 2);
  EXPECT_FALSE(push_vlan(shared.mbuf(), shared.parsed, 0x8100, Depth::full));
  EXPECT_EQ(shared.packet.frame(), inner);
}

TEST(TunnelPushTest, RefusesWhatDoesNotFit) {
  const TunnelHeader vxlan(spec_of(TunnelKind::vxlan));
  Packet tight(inner_frame(), 49);
  EXPECT_EQ(vxlan.push(tight.mbuf(), tight.parsed, 1, 0), TunnelResult::no_headroom);
  EXPECT_EQ(tight.packet.frame(), inner_frame());
  Packet p(inner_frame());
  const auto size = static_cast<uint32_t>(inner_frame().size() + 50);
  EXPECT_EQ(vxlan.push(p.mbuf(), p.parsed, 1, 0, size - 1), TunnelResult::too_long);
  EXPECT_EQ(vxlan.push(p.mbuf(), p.parsed, 1, 0, size), TunnelResult::done);
  Packet arp(FrameBuilder().ethernet(0x0806).arp(1).frame());
  EXPECT_EQ(TunnelHeader(spec_of(TunnelKind::gtpu)).push(arp.mbuf(), arp.parsed, 1, 0),
            TunnelResult::not_ip);
  Frame lies = inner_frame();
  store_be16(&lies[16], 2000);  // a total length beyond the frame
  Packet cut(lies);
  cut.parsed.l3 = 14;
  cut.parsed.flags = kIpv4;
  EXPECT_EQ(TunnelHeader(spec_of(TunnelKind::gtpu)).push(cut.mbuf(), cut.parsed, 1, 0),
            TunnelResult::malformed);
}

TunnelResult found_in(Frame frame, TunnelKind kind) {
  if (frame[12] == 8) {  // IPv4: the checksum is not what is tested
    store_raw16(&frame[24], 0);
    store_raw16(&frame[24], checksum(std::span(frame).subspan(14, 20)));
  }
  Packet p(frame);
  return find_tunnel(p.mbuf(), p.parsed, kind, default_port(kind)).result;
}

TEST(TunnelFindTest, NamesWhatIsWrong) {
  const Frame vxlan = pushed(spec_of(TunnelKind::vxlan), inner_frame());
  EXPECT_EQ(found_in(vxlan, TunnelKind::vxlan), TunnelResult::done);
  EXPECT_EQ(found_in(vxlan, TunnelKind::gtpu), TunnelResult::absent);
  EXPECT_EQ(found_in(vxlan, TunnelKind::gre), TunnelResult::absent);
  EXPECT_EQ(found_in(inner_frame(), TunnelKind::vxlan), TunnelResult::absent);
  Frame bad = vxlan;
  bad[42] = 0;  // no VNI
  EXPECT_EQ(found_in(bad, TunnelKind::vxlan), TunnelResult::malformed);
  bad = vxlan;
  bad[20] = 0x20;  // more fragments
  EXPECT_EQ(found_in(bad, TunnelKind::vxlan), TunnelResult::fragment);
  bad = vxlan;
  bad[40] = 1;  // a UDP checksum, and a wrong one
  EXPECT_EQ(found_in(bad, TunnelKind::vxlan), TunnelResult::checksum);
  bad = vxlan;
  ++bad[24];
  Packet p(bad);
  EXPECT_EQ(find_tunnel(p.mbuf(), p.parsed, TunnelKind::vxlan).result, TunnelResult::checksum);
  bad = vxlan;
  bad.resize(55);
  store_be16(&bad[16], 41);
  EXPECT_EQ(found_in(bad, TunnelKind::vxlan), TunnelResult::malformed);

  Frame gre = pushed(spec_of(TunnelKind::gre), inner_frame());
  EXPECT_EQ(found_in(gre, TunnelKind::gre), TunnelResult::done);
  gre[34] = 0x60;  // source routing
  EXPECT_EQ(found_in(gre, TunnelKind::gre), TunnelResult::malformed);
  gre[34] = 0x20;
  gre[35] = 1;  // version 1: PPTP's
  EXPECT_EQ(found_in(gre, TunnelKind::gre), TunnelResult::malformed);
  gre[35] = 0;
  gre[37] = 0x59;  // an unknown payload
  EXPECT_EQ(found_in(gre, TunnelKind::gre), TunnelResult::malformed);

  Frame gtpu = pushed(spec_of(TunnelKind::gtpu), inner_frame());
  EXPECT_EQ(found_in(gtpu, TunnelKind::gtpu), TunnelResult::done);
  gtpu[43] = 1;  // echo request
  EXPECT_EQ(found_in(gtpu, TunnelKind::gtpu), TunnelResult::message);
  gtpu[43] = 255;
  gtpu[42] = 0x10;  // version 0
  EXPECT_EQ(found_in(gtpu, TunnelKind::gtpu), TunnelResult::malformed);
}

TEST(TunnelFindTest, GtpuExtensionHeadersAreSkipped) {
  // A PDU session container of 4 octets: length 1, two octets of content, no next extension.
  const Frame ip = FrameBuilder().ipv4(kProtoUdp).udp(5, 6).payload(4).frame();
  FrameBuilder outer;
  outer.ethernet(0x0800).ipv4(kProtoUdp).udp(9, 2152).bytes({0x34, 255});
  outer.be16(static_cast<uint16_t>(8 + ip.size())).be32(77);
  outer.bytes({0, 0, 0, kGtpuPduSession, 1, 0, 9, 0}).bytes(ip);
  const Frame frame = outer.frame();
  Packet p(frame);
  const TunnelFound found = find_tunnel(p.mbuf(), p.parsed, TunnelKind::gtpu, 2152);
  ASSERT_EQ(found.result, TunnelResult::done);
  EXPECT_EQ(found.id, 77u);
  EXPECT_EQ(found.payload, 14 + 20 + 8 + 8 + 8);
  ASSERT_TRUE(pop_tunnel(p.mbuf(), found));
  EXPECT_EQ(p.packet.frame().size(), 14 + ip.size());
  Frame endless = frame;
  endless[54] = 0;  // an extension of no length
  store_raw16(&endless[40], 0);
  EXPECT_EQ(found_in(endless, TunnelKind::gtpu), TunnelResult::malformed);
}

TEST(TunnelFindTest, GreWithSequenceAndChecksum) {
  FrameBuilder outer;
  outer.ethernet(0x0800).ipv4(kProtoGre).be16(0xb000).be16(0x6558).be16(0).be16(0).be32(7).be32(1);
  Frame frame = outer.bytes(inner_frame()).frame();
  store_raw16(&frame[38], checksum(std::span(frame).subspan(34)));
  Packet p(frame);
  const TunnelFound found = find_tunnel(p.mbuf(), p.parsed, TunnelKind::gre);
  ASSERT_EQ(found.result, TunnelResult::done);
  EXPECT_EQ(found.id, 7u);
  ASSERT_TRUE(pop_tunnel(p.mbuf(), found));
  EXPECT_EQ(p.packet.frame(), inner_frame());
  frame[39] ^= 1;
  EXPECT_EQ(found_in(frame, TunnelKind::gre), TunnelResult::checksum);
}

TEST(TunnelFindTest, NeverReadsBeyondTheFrame) {
  for (const TunnelKind kind : {TunnelKind::vxlan, TunnelKind::gre, TunnelKind::gtpu}) {
    for (const bool ipv6 : {false, true}) {
      const Frame whole = pushed(spec_of(kind, ipv6), inner_frame());
      for (size_t size = 0; size < whole.size(); ++size) {
        Packet p(Frame(whole.begin(), whole.begin() + static_cast<long>(size)), 0);
        const TunnelFound found = find_tunnel(p.mbuf(), p.parsed, kind);
        EXPECT_NE(found.result, TunnelResult::done) << size;
      }
    }
  }
}

}  // namespace
}  // namespace headrace::packet
