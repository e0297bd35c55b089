// SPDX-License-Identifier: Apache-2.0
// Checksums that are left to the sender: whatever is edited meanwhile, once it is finished the
// packet is the one that had its checksum all the time.
#include "packet/offload.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

#include "packet/edit.h"
#include "packet/test_packet.h"
#include "packet/tunnel.h"

namespace headrace::packet {
namespace {

struct Form {
  const char* name;
  bool ipv4;
  uint8_t proto;
  bool tagged;
};

constexpr std::array kForms = {
    Form{"tcp4", true, kProtoTcp, false},       Form{"tcp6", false, kProtoTcp, false},
    Form{"udp4", true, kProtoUdp, false},       Form{"udp6", false, kProtoUdp, false},
    Form{"tagged tcp4", true, kProtoTcp, true}, Form{"tagged udp6", false, kProtoUdp, true}};

std::vector<uint8_t> frame_of_form(const Form& form) {
  FrameBuilder builder;
  const uint16_t type = form.ipv4 ? 0x0800 : 0x86dd;
  builder.ethernet(form.tagged ? 0x8100 : type);
  if (form.tagged) builder.vlan(0x2064, type);
  form.ipv4 ? builder.ipv4(form.proto, 0x20) : builder.ipv6(form.proto);
  form.proto == kProtoTcp ? builder.tcp(1000, 2000) : builder.udp(1000, 2000);
  return builder.payload(101).frame();
}

/// The same packet as a kernel interface delivers it: the field holds the pseudo-header's sum.
void leave_checksum(rte_mbuf* packet, const Form& form) {
  const ParsedPacket parsed = parse(frame_of(packet), Depth::full);
  uint8_t* l3 = &frame_of(packet)[parsed.l3];
  uint8_t* l4 = &frame_of(packet)[parsed.l4];
  const auto octets = static_cast<uint16_t>(packet->data_len - parsed.l4);
  const Sum sum = form.ipv4
                      ? pseudo_ipv4(load_raw32(l3 + 12), load_raw32(l3 + 16), form.proto, octets)
                      : pseudo_ipv6(l3 + 8, l3 + 24, form.proto, octets);
  const bool tcp = form.proto == kProtoTcp;
  store_raw16(l4 + (tcp ? offsetof(TcpHeader, checksum) : offsetof(UdpHeader, checksum)),
              fold(sum));
  packet->ol_flags |= tcp ? RTE_MBUF_F_TX_TCP_CKSUM : RTE_MBUF_F_TX_UDP_CKSUM;
  packet->ol_flags |= form.ipv4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6;
  packet->l2_len = parsed.l3 & 0x7f;
  packet->l3_len = static_cast<unsigned>(parsed.l4 - parsed.l3) & 0x1ff;
}

constexpr uint8_t kAddress[16] = {192, 0, 2, 77, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
constexpr uint8_t kPort[2] = {0x12, 0x34};
constexpr uint8_t kVid[2] = {0x10, 0x07};
constexpr uint8_t kMac[6] = {2, 9, 9, 9, 9, 9};
constexpr uint8_t kProto = 253;
constexpr uint8_t kDscp = 46;
constexpr uint8_t kTtl = 9;

TunnelHeader vxlan(bool checksum) {
  TunnelSpec spec{.kind = TunnelKind::vxlan, .checksum = checksum};
  spec.local = {192, 0, 2, 1};
  spec.remote = {192, 0, 2, 2};
  return TunnelHeader(spec);
}

using Edit = std::function<bool(rte_mbuf*, ParsedPacket&)>;

struct Case {
  const char* name;
  Edit edit;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"nothing", [](rte_mbuf*, ParsedPacket&) { return true; }},
      {"ipv4 source", [](rte_mbuf* p, ParsedPacket& h) { return set_ipv4_src(p, h, kAddress); }},
      {"ipv4 target", [](rte_mbuf* p, ParsedPacket& h) { return set_ipv4_dst(p, h, kAddress); }},
      {"ipv6 source", [](rte_mbuf* p, ParsedPacket& h) { return set_ipv6_src(p, h, kAddress); }},
      {"ipv6 target", [](rte_mbuf* p, ParsedPacket& h) { return set_ipv6_dst(p, h, kAddress); }},
      {"tcp source", [](rte_mbuf* p, ParsedPacket& h) { return set_l4_src(p, h, 6, kPort); }},
      {"tcp target", [](rte_mbuf* p, ParsedPacket& h) { return set_l4_dst(p, h, 6, kPort); }},
      {"udp source", [](rte_mbuf* p, ParsedPacket& h) { return set_l4_src(p, h, 17, kPort); }},
      {"udp target", [](rte_mbuf* p, ParsedPacket& h) { return set_l4_dst(p, h, 17, kPort); }},
      {"both ends",
       [](rte_mbuf* p, ParsedPacket& h) {
         return set_ipv4_src(p, h, kAddress) && set_ipv4_dst(p, h, kAddress + 4) &&
                set_l4_src(p, h, h.ip_proto, kPort) && dec_nw_ttl(p, h) == TtlResult::done;
       }},
      {"protocol", [](rte_mbuf* p, ParsedPacket& h) { return set_ip_proto(p, h, &kProto); }},
      {"dscp", [](rte_mbuf* p, ParsedPacket& h) { return set_ip_dscp(p, h, &kDscp); }},
      {"ttl", [](rte_mbuf* p, ParsedPacket& h) { return set_nw_ttl(p, h, kTtl); }},
      {"source mac", [](rte_mbuf* p, ParsedPacket& h) { return set_eth_src(p, h, kMac); }},
      {"push vlan",
       [](rte_mbuf* p, ParsedPacket& h) {
         return push_vlan(p, h, 0x88a8, Depth::full) && set_vlan_vid(p, h, kVid) &&
                (!h.has(kIpv4) || set_ipv4_src(p, h, kAddress));
       }},
      {"pop vlan",
       [](rte_mbuf* p, ParsedPacket& h) {
         return pop_vlan(p, h, Depth::full) && set_l4_src(p, h, h.ip_proto, kPort);
       }},
      {"push mpls",
       [](rte_mbuf* p, ParsedPacket& h) { return push_mpls(p, h, 0x8847, Depth::full); }},
      {"push and pop mpls",
       [](rte_mbuf* p, ParsedPacket& h) {
         const uint16_t type = h.has(kIpv4) ? 0x0800 : 0x86dd;
         return push_mpls(p, h, 0x8847, Depth::full) && pop_mpls(p, h, type, Depth::full);
       }},
      {"push pbb", [](rte_mbuf* p, ParsedPacket& h) { return push_pbb(p, h, Depth::full); }},
      {"push and pop pbb",
       [](rte_mbuf* p, ParsedPacket& h) {
         return push_pbb(p, h, Depth::full) && pop_pbb(p, h, Depth::full);
       }},
      {"vxlan",
       [](rte_mbuf* p, ParsedPacket& h) {
         return vxlan(false).push(p, h, 7, 0) == TunnelResult::done;
       }},
      {"vxlan with a checksum",
       [](rte_mbuf* p, ParsedPacket& h) {
         return vxlan(true).push(p, h, 7, 0) == TunnelResult::done;
       }},
  };
  return all;
}

TEST(OffloadTest, FinishedItIsAsIfItHadNeverBeenLeft) {
  for (const Form& form : kForms) {
    for (const Case& each : cases()) {
      SCOPED_TRACE(std::string(form.name) + ", " + each.name);
      const std::vector<uint8_t> frame = frame_of_form(form);
      TestPacket whole(frame);
      TestPacket left(frame);
      leave_checksum(left.mbuf(), form);
      ASSERT_NE(left.frame(), frame);
      ParsedPacket of_whole = parse(frame, Depth::full);
      ParsedPacket of_left = of_whole;
      const bool done = each.edit(whole.mbuf(), of_whole);
      EXPECT_EQ(each.edit(left.mbuf(), of_left), done);
      if (offload_left(left.mbuf())) finish_checksum(left.mbuf());
      EXPECT_EQ(left.frame(), whole.frame());
      EXPECT_EQ(left.mbuf()->ol_flags, 0u);
    }
  }
}

TEST(OffloadTest, APushThatCannotBeNotedIsRefused) {
  const Form& form = kForms[0];
  TestPacket packet(frame_of_form(form), 400);
  leave_checksum(packet.mbuf(), form);
  ParsedPacket parsed = parse(packet.frame(), Depth::full);
  unsigned pushed = 0;
  while (push_mpls(packet.mbuf(), parsed, 0x8847, Depth::full)) ++pushed;
  EXPECT_EQ(packet.mbuf()->l2_len, 14 + pushed * 4);
  EXPECT_GT(packet.mbuf()->l2_len + 4, 127);
}

TEST(OffloadTest, WhatIsLeftOfATunnelsHeaderGoesWithIt) {
  const Form& form = kForms[2];
  TestPacket packet(frame_of_form(form));
  leave_checksum(packet.mbuf(), form);
  tunnel_taken_off(packet.mbuf(), 50);
  EXPECT_FALSE(offload_left(packet.mbuf()));
}

}  // namespace
}  // namespace headrace::packet
