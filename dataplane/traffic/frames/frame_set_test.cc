// SPDX-License-Identifier: Apache-2.0
// Frames are checked with DPDK's checksum functions and by parsing their bytes.
#include "traffic/frames/frame_set.h"

#include <gtest/gtest.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include <array>
#include <set>

namespace headrace::traffic {
namespace {

using nlohmann::json;

using Frame = std::array<uint8_t, 2048>;

HeaderStack stack_of(const json& layers) {
  auto stack = HeaderStack::from_json(layers, "/layers");
  EXPECT_TRUE(stack) << stack.error().message;
  return *stack;
}

FrameSet set_of(const HeaderStack& stack, const SizeProfile& sizes, uint32_t flows,
                const std::vector<Variation>& vary) {
  auto set = FrameSet::build(stack, sizes, flows, vary);
  EXPECT_TRUE(set) << set.error().message;
  return std::move(*set);
}

/// The frame as the sender makes it, in a buffer that contains an earlier packet's bytes.
uint16_t make(const FrameSet& set, Frame& frame, unsigned size, uint32_t flow, uint32_t sequence) {
  frame.fill(0xEE);
  const uint16_t length = set.write(frame.data(), size, flow);
  if (set.needs_finish()) set.clear_payload(frame.data(), size);
  Signature{.stream = 3, .sequence = sequence, .time = 0x1122334455, .run = 7}.write(
      frame.data() + length - Signature::kBytes);
  if (set.needs_finish()) set.finish(frame.data(), size);
  return length;
}

uint32_t be(const Frame& frame, size_t at, unsigned bytes) {
  uint32_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) value = value << 8 | frame[at + i];
  return value;
}

bool ipv4_header_is_right(const Frame& frame, size_t at) {
  return rte_raw_cksum(frame.data() + at, 20) == 0xffff;
}

TEST(FrameSet, SixtyFourBytesOfVlanIpv4Udp) {
  const HeaderStack stack = stack_of({"ethernet",
                                      {{"vlan", {{"vid", 0x123}, {"pcp", 5}}}},
                                      {{"ipv4", {{"src", "10.1.2.3"}, {"dst", "10.4.5.6"}}}},
                                      {{"udp", {{"src", 1000}, {"dst", 2000}}}}});
  const FrameSet set = set_of(stack, *SizeProfile::fixed(64), 1, {});
  Frame frame;
  ASSERT_EQ(make(set, frame, 0, 0, 9), 60);
  EXPECT_EQ(be(frame, 12, 2), 0x8100U);
  EXPECT_EQ(be(frame, 14, 2), 0xA123U);
  EXPECT_EQ(be(frame, 16, 2), 0x0800U);
  EXPECT_EQ(be(frame, 20, 2), 60U - 18);  // IPv4 total length
  EXPECT_EQ(be(frame, 30, 4), 0x0A010203U);
  EXPECT_EQ(be(frame, 34, 4), 0x0A040506U);
  EXPECT_EQ(be(frame, 38, 2), 1000U);
  EXPECT_EQ(be(frame, 42, 2), 60U - 38);  // UDP length
  EXPECT_TRUE(ipv4_header_is_right(frame, 18));
  EXPECT_EQ(Signature::read(frame.data() + 60 - Signature::kBytes)->sequence, 9U);
  EXPECT_EQ(frame[64], 0xEE) << "headers are copied by cache lines, never beyond the last";
}

TEST(FrameSet, EveryFlowOfEverySizeDiffersAndHasRightChecksums) {
  const HeaderStack stack = stack_of({"ethernet", "ipv4", "udp"});
  const auto sizes = SizeProfile::imix("imix-csit");
  const FrameSet set =
      set_of(stack, *sizes, 1000,
             {{.field = "ipv4_dst", .step = 256, .count = 100}, {.field = "udp_src"}});
  Frame frame;
  for (unsigned size = 0; size < 3; ++size) {
    std::set<std::pair<uint32_t, uint32_t>> seen;
    for (uint32_t flow = 0; flow < 1000; ++flow) {
      ASSERT_EQ(make(set, frame, size, flow, flow), sizes->sizes[size] - 4);
      ASSERT_TRUE(ipv4_header_is_right(frame, 14)) << flow;
      const uint32_t address = be(frame, 30, 4);
      EXPECT_EQ(address, 0xC6130001U + 256 * (flow % 100));
      EXPECT_EQ(be(frame, 34, 2), (49152 + flow) % 65536);
      seen.emplace(address, be(frame, 34, 2));
    }
    EXPECT_EQ(seen.size(), 1000U);
  }
}

TEST(FrameSet, Udp6AndTcpChecksumsCoverTheSignature) {
  for (const uint16_t bytes : {90, 91, 128, 1518, 1517}) {
    for (const char* l4 : {"udp", "tcp"}) {
      for (const char* l3 : {"ipv4", "ipv6"}) {
        const bool ipv6 = l3 == std::string("ipv6");
        const bool tcp = l4 == std::string("tcp");
        if (!ipv6 && !tcp) continue;
        const FrameSet set =
            set_of(stack_of({"ethernet", l3, l4}),
                   *SizeProfile::fixed(std::max<uint16_t>(bytes, ipv6 && tcp ? 92 : 90)), 300,
                   {{.field = std::string(l3) + "_src"}});
        ASSERT_TRUE(set.needs_finish());
        Frame frame;
        for (uint32_t flow = 0; flow < 300; flow += 7) {
          const uint16_t length = make(set, frame, 0, flow, flow * 77'777'777);
          const void* l4_at = frame.data() + (ipv6 ? 54 : 34);
          const int wrong =
              ipv6 ? rte_ipv6_udptcp_cksum_verify(
                         reinterpret_cast<const rte_ipv6_hdr*>(frame.data() + 14), l4_at)
                   : rte_ipv4_udptcp_cksum_verify(
                         reinterpret_cast<const rte_ipv4_hdr*>(frame.data() + 14), l4_at);
          ASSERT_EQ(wrong, 0) << l3 << " " << l4 << " " << length << " flow " << flow;
        }
      }
    }
  }
}

TEST(FrameSet, TunnelsHaveRightTypesLengthsAndInnerFields) {
  const HeaderStack vxlan = stack_of({"ethernet",
                                      "ipv4",
                                      {{"udp", {{"src", 5}}}},
                                      {{"vxlan", {{"vni", 0xABCDEF}}}},
                                      "ethernet",
                                      "ipv4",
                                      "udp"});
  FrameSet set = set_of(vxlan, *SizeProfile::fixed(200), 50,
                        {{.field = "ipv4_dst"}, {.field = "outer_udp_src"}});
  Frame frame;
  ASSERT_EQ(make(set, frame, 0, 49, 0), 196);
  EXPECT_EQ(be(frame, 34, 2), 5U + 49) << "outer source port";
  EXPECT_EQ(be(frame, 36, 2), 4789U);
  EXPECT_EQ(be(frame, 38, 2), 196U - 34);
  EXPECT_EQ(be(frame, 46, 3), 0xABCDEFU);
  EXPECT_EQ(be(frame, 50 + 30, 4), 0xC6130001U + 49) << "inner destination";
  EXPECT_EQ(be(frame, 30, 4), 0xC6130001U) << "outer destination";
  EXPECT_TRUE(ipv4_header_is_right(frame, 14));
  EXPECT_TRUE(ipv4_header_is_right(frame, 64));

  const HeaderStack gtp =
      stack_of({"ethernet", "ipv4", "udp", {{"gtpu", {{"teid", 77}}}}, "ipv4", "udp"});
  set = set_of(gtp, *SizeProfile::fixed(128), 10, {{.field = "tunnel_id"}});
  ASSERT_EQ(make(set, frame, 0, 3, 0), 124);
  EXPECT_EQ(be(frame, 36, 2), 2152U);
  EXPECT_EQ(be(frame, 42, 2), 0x30FFU);
  EXPECT_EQ(be(frame, 44, 2), 124U - 50) << "bytes after the GTP-U header";
  EXPECT_EQ(be(frame, 46, 4), 80U);

  const HeaderStack gre = stack_of({"ethernet",
                                    {{"vlan", {{"vid", 1}}}},
                                    {{"vlan", {{"vid", 2}}}},
                                    "ipv4",
                                    {{"gre", {{"key", 9}}}},
                                    "ipv6",
                                    "udp"});
  set = set_of(gre, *SizeProfile::fixed(128), 1, {});
  make(set, frame, 0, 0, 0);
  EXPECT_EQ(be(frame, 12, 2), 0x88A8U) << "service tag outside";
  EXPECT_EQ(be(frame, 16, 2), 0x8100U);
  EXPECT_EQ(frame[22 + 9], 47) << "protocol GRE";
  EXPECT_EQ(be(frame, 42, 4), 0x200086DDU);
  EXPECT_EQ(be(frame, 46, 4), 9U);

  const HeaderStack mpls = stack_of({"ethernet",
                                     {{"mpls", {{"label", 100}}}},
                                     {{"mpls", {{"label", 200}, {"ttl", 9}}}},
                                     "ipv4",
                                     "udp"});
  set = set_of(mpls, *SizeProfile::fixed(128), 5, {{.field = "mpls_label"}});
  make(set, frame, 0, 4, 0);
  EXPECT_EQ(be(frame, 14, 4), 100U << 12 | 64) << "not the bottom of the stack";
  EXPECT_EQ(be(frame, 18, 4), 204U << 12 | 1U << 8 | 9);

  const HeaderStack pppoe = stack_of({"ethernet", {{"pppoe", {{"session", 7}}}}, "ipv4", "udp"});
  set = set_of(pppoe, *SizeProfile::fixed(128), 1, {});
  make(set, frame, 0, 0, 0);
  EXPECT_EQ(be(frame, 14, 4), 0x11000007U);
  EXPECT_EQ(be(frame, 18, 2), 124U - 20) << "PPP protocol and what follows";
  EXPECT_EQ(be(frame, 20, 2), 0x0021U);
}

TEST(FrameSet, AMillionFlows) {
  const FrameSet set = set_of(stack_of({"ethernet", "ipv4", "udp"}), *SizeProfile::fixed(64),
                              1U << 20, {{.field = "ipv4_src"}});
  Frame frame;
  make(set, frame, 0, (1U << 20) - 1, 0);
  EXPECT_EQ(be(frame, 26, 4), 0xC6120001U + (1U << 20) - 1);
  EXPECT_TRUE(ipv4_header_is_right(frame, 14));
}

TEST(FrameSet, WhatCannotBeIsRefusedByName) {
  const HeaderStack stack = stack_of({"ethernet", "ipv4", "udp"});
  const auto message = [&](const HeaderStack& headers, uint32_t flows, std::vector<Variation> vary,
                           uint16_t size = 64) {
    const auto set = FrameSet::build(headers, *SizeProfile::fixed(size), flows, vary);
    return set ? std::string() : set.error().message;
  };
  EXPECT_EQ(message(stack, 65536, {{.field = "udp_src"}}), "");
  EXPECT_NE(message(stack, 65537, {{.field = "udp_src"}}).find("flows:"), std::string::npos);
  EXPECT_NE(message(stack, 2, {{.field = "vlan_vid"}}).find("no vlan_vid"), std::string::npos);
  EXPECT_NE(message(stack, (1U << 20) + 1, {{.field = "ipv4_src"}}).find("flows:"),
            std::string::npos);
  EXPECT_NE(message(stack, 2, {{.field = "udp_src", .step = 0}}).find("step"), std::string::npos);
  EXPECT_NE(message(stack, 2, {{.field = "udp_src", .step = 256, .count = 257}}).find("256 values"),
            std::string::npos);
  EXPECT_NE(message(stack_of({"ethernet", "ipv6", "udp"}), 1, {}).find("the minimum is 80"),
            std::string::npos);
}

TEST(HeaderStack, WrongOrdersAreRefusedByPlace) {
  const auto message = [](const json& layers) {
    const auto stack = HeaderStack::from_json(layers, "/streams/0/layers");
    return stack ? std::string() : stack.error().message;
  };
  EXPECT_EQ(message({"ethernet", "arp"}), "");
  EXPECT_NE(message({"ipv4"}).find("ipv4 cannot be the first"), std::string::npos);
  EXPECT_NE(message({"ethernet", "udp"}).find("layer 1: udp cannot follow ethernet"),
            std::string::npos);
  EXPECT_NE(message({"ethernet", "ipv4", "udp", "vxlan"}).find("nothing follows vxlan"),
            std::string::npos);
  EXPECT_NE(message({"ethernet", "ip"}).find("/streams/0/layers/1: 'ip' is not a known layer"),
            std::string::npos);
  EXPECT_NE(message({"ethernet", {{"vlan", {{"vid", 4096}}}}}).find("/1/vlan/vid"),
            std::string::npos);
  EXPECT_NE(message({"ethernet", {{"ipv4", {{"dst", "10.0.0"}}}}}).find("/1/ipv4/dst"),
            std::string::npos);
  EXPECT_NE(message({"ethernet", {{"ipv4", {{"dest", "10.0.0.1"}}}}}).find("unknown member"),
            std::string::npos);
}

}  // namespace
}  // namespace headrace::traffic
