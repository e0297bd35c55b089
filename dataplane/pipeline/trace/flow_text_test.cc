// SPDX-License-Identifier: Apache-2.0
// Flow text to packets and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "match/fields/extract.h"
#include "pipeline/testing/test_support.h"
#include "pipeline/trace/compose.h"
#include "pipeline/trace/field_text.h"
#include "pipeline/trace/flow_parser.h"

namespace headrace::pipeline::test {
namespace {

using testing::HasSubstr;

std::optional<uint32_t> no_ports(std::string_view name) {
  return name == "p7" ? std::optional<uint32_t>(7) : std::nullopt;
}

/// The packet of a flow text, as format_packet() tells it; or the error.
std::string packet_of(std::string_view text) {
  const Result<FlowText> flow = parse_flow(text, no_ports);
  if (!flow) return flow.error().message;
  start_eal();
  rte_mbuf* packet = rte_pktmbuf_alloc(mbuf_pool());
  const Result<> composed = compose(*flow, packet);
  std::string told = composed ? "" : composed.error().message;
  if (composed) {
    match::FlowKey key;
    packet::ParsedPacket parsed;
    key.in_port = flow->fields.value.in_port;
    match::refresh(packet::Depth::full, packet, key, parsed);
    told = format_packet(key, parsed, packet);
  }
  rte_pktmbuf_free(packet);
  return told;
}

TEST(FlowText, PacketsHaveTheFieldsThatWereAskedFor) {
  EXPECT_EQ(packet_of("in_port=1,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_dst=80,nw_tos=184"),
            "tcp,in_port=1,vlan_tci=0x0000,dl_src=00:00:00:00:00:00,dl_dst=00:00:00:00:00:00,"
            "nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_tos=184,nw_ecn=0,nw_ttl=64,tp_src=0,tp_dst=80,"
            "tcp_flags=0");
  EXPECT_EQ(packet_of("in_port=LOCAL,tp_dst=53,udp,nw_ttl=1,dl_vlan=5,dl_vlan_pcp=3"),
            "udp,in_port=LOCAL,dl_vlan=5,dl_vlan_pcp=3,dl_src=00:00:00:00:00:00,"
            "dl_dst=00:00:00:00:00:00,nw_src=0.0.0.0,nw_dst=0.0.0.0,nw_tos=0,nw_ecn=0,nw_ttl=1,"
            "tp_src=0,tp_dst=53");
  EXPECT_EQ(packet_of("in_port=p7,arp,arp_op=1,arp_tpa=10.0.0.9,dl_dst=ff:ff:ff:ff:ff:ff"),
            "arp,in_port=7,vlan_tci=0x0000,dl_src=00:00:00:00:00:00,dl_dst=ff:ff:ff:ff:ff:ff,"
            "arp_spa=0.0.0.0,arp_tpa=10.0.0.9,arp_op=1,arp_sha=00:00:00:00:00:00,"
            "arp_tha=00:00:00:00:00:00");
  EXPECT_EQ(packet_of("in_port=1,icmp6,icmp_type=135,nd_target=fe80::1,nd_sll=02:00:00:00:00:01"),
            "icmp6,in_port=1,vlan_tci=0x0000,dl_src=00:00:00:00:00:00,dl_dst=00:00:00:00:00:00,"
            "ipv6_src=::,ipv6_dst=::,ipv6_label=0,nw_tos=0,nw_ecn=0,nw_ttl=64,icmp_type=135,"
            "icmp_code=0,nd_target=fe80::1,nd_sll=02:00:00:00:00:01");
  EXPECT_THAT(packet_of("in_port=1,mpls,mpls_label=77,mpls_tc=3"),
              HasSubstr("mpls_label=77,mpls_tc=3,mpls_bos=1"));
  EXPECT_THAT(packet_of("in_port=1,sctp6,ipv6_dst=2001:db8::1,tp_src=9"),
              HasSubstr("sctp6,in_port=1"));
  EXPECT_THAT(packet_of("in_port=1,vlan_tci=0"), HasSubstr("vlan_tci=0x0000"));
  EXPECT_THAT(packet_of("in_port=1,dl_type=0x88cc"), HasSubstr("dl_type=0x88cc"));
}

TEST(FlowText, ErrorsNameTheField) {
  EXPECT_EQ(packet_of("foo=1"), "Bad openflow flow syntax: foo=1: unknown field foo");
  EXPECT_THAT(packet_of("in_port=1,nw_dst"), HasSubstr("field nw_dst missing value"));
  EXPECT_THAT(packet_of("nw_dst=10.0.0.0/8"), HasSubstr("give nw_dst without a mask"));
  EXPECT_THAT(packet_of("dl_dst=1:2"), HasSubstr("1:2: invalid Ethernet address"));
  EXPECT_THAT(packet_of("ip,nw_proto=256"), HasSubstr("value too large for 8-bit field nw_proto"));
  EXPECT_THAT(packet_of("in_port=nobody"), HasSubstr("nobody: invalid value for in_port"));
  EXPECT_THAT(packet_of("ip,ip"), HasSubstr("field dl_type set multiple times"));
  EXPECT_EQ(packet_of("in_port=1,tp_dst=80"), "prerequisites not met for setting tp_dst");
  EXPECT_EQ(packet_of("arp,nw_dst=10.0.0.1"), "prerequisites not met for setting nw_dst");
  EXPECT_EQ(packet_of("ip,arp_op=1"), "prerequisites not met for setting arp_op");
}

}  // namespace
}  // namespace headrace::pipeline::test
