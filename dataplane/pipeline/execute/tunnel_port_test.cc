// SPDX-License-Identifier: Apache-2.0
// Tunnel ports whose far ends are the flows' business: over IPv4 and over IPv6.
#include "pipeline/execute/tunnel_port.h"

#include <gtest/gtest.h>

#include <cstring>

#include "packet/bytes.h"
#include "pipeline/program/handles.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {
namespace {

using packet::TunnelAddress;
using packet::TunnelHeader;
using packet::TunnelKind;
using packet::TunnelSpec;

constexpr TunnelAddress kLocal4{192, 168, 7, 1};
constexpr TunnelAddress kRemote4{192, 168, 7, 2};
constexpr TunnelAddress kLocal6{0xfd, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr TunnelAddress kRemote6{0xfd, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
constexpr TunnelAddress kNone{};

TunnelSpec spec_of(TunnelKind kind, bool ipv6) {
  TunnelSpec spec;
  spec.kind = kind;
  spec.ipv6 = ipv6;
  spec.id = 77;
  spec.local = ipv6 ? kLocal6 : kLocal4;
  spec.remote = ipv6 ? kRemote6 : kRemote4;
  return spec;
}

uint32_t raw(const TunnelAddress& ipv4) {
  return packet::load_raw32(ipv4.data());
}

void expect_address(const uint8_t* found, const TunnelAddress& expected) {
  EXPECT_EQ(std::memcmp(found, expected.data(), expected.size()), 0);
}

packet::ParsedPacket parse(const rte_mbuf* packet) {
  return packet::parse({rte_pktmbuf_mtod(packet, const uint8_t*), packet->data_len},
                       packet::Depth::full);
}

class TunnelEgressTest : public ::testing::Test {
 protected:
  TunnelEgressTest() {
    start_eal();
    egress.remote_from_flow = true;
    egress.by_remote.emplace(raw(kRemote4), TunnelHeader(spec_of(TunnelKind::vxlan, false)));
    egress.by_remote_ipv6.emplace(kRemote6, TunnelHeader(spec_of(TunnelKind::vxlan, true)));
  }

  /// Sends a packet with these fields; what leaves, or the empty frame.
  Bytes push(const match::FlowKey& values, bool known = true) {
    rte_mbuf* packet = make_packet(make_frame({}));
    reason = egress.push(packet, parse(packet), values, known);
    const Bytes sent = reason == DropReason::none ? bytes_of(packet) : Bytes{};
    rte_pktmbuf_free(packet);
    return sent;
  }

  TunnelEgress egress;
  DropReason reason{};
};

void name_remote(match::FlowKey& values, const TunnelAddress& ipv4, const TunnelAddress& ipv6) {
  values.tun_dst = raw(ipv4);
  std::memcpy(values.tun_ipv6_dst, ipv6.data(), ipv6.size());
}

TEST_F(TunnelEgressTest, TheFarEndDecidesTheVersion) {
  match::FlowKey values;
  name_remote(values, kNone, kRemote6);
  Bytes sent = push(values);
  ASSERT_EQ(sent.size(), 60u + 14 + 40 + 8 + 8);
  EXPECT_EQ(sent[12], 0x86);
  expect_address(&sent[14 + 8], kLocal6);
  expect_address(&sent[14 + 24], kRemote6);

  name_remote(values, kRemote4, kNone);
  EXPECT_EQ(push(values).size(), 60u + 14 + 20 + 8 + 8);
  name_remote(values, kRemote4, kRemote6);
  EXPECT_EQ(push(values).size(), 60u + 14 + 20 + 8 + 8) << "tun_dst goes before tun_ipv6_dst";
}

TEST_F(TunnelEgressTest, AFarEndThatIsNotKnownIsNamed) {
  match::FlowKey values;
  const TunnelAddress other{0xfd, 0, 0, 8};
  name_remote(values, kNone, other);
  EXPECT_TRUE(push(values).empty());
  EXPECT_EQ(reason, DropReason::tunnel_unresolved);
  const RemoteEndpoint six = remote_endpoint_of(values);
  expect_address(reinterpret_cast<const uint8_t*>(six.data()), other);

  name_remote(values, {10, 0, 0, 9}, other);
  EXPECT_TRUE(push(values).empty());
  EXPECT_EQ(reason, DropReason::tunnel_unresolved);
  const RemoteEndpoint four = remote_endpoint_of(values);
  expect_address(reinterpret_cast<const uint8_t*>(four.data()),
                 {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 9});
}

TEST_F(TunnelEgressTest, NoFarEndIsADropOfItsOwn) {
  match::FlowKey values;
  EXPECT_TRUE(push(values).empty());
  EXPECT_EQ(reason, DropReason::tunnel_no_remote);
  name_remote(values, kRemote4, kRemote6);
  EXPECT_TRUE(push(values, false).empty()) << "no rule of this pipeline sets or matches the fields";
  EXPECT_EQ(reason, DropReason::tunnel_no_remote);
}

TEST_F(TunnelEgressTest, TheSourceOfTheVersionIsTaken) {
  egress.local_from_flow = true;
  const TunnelAddress source{0xfd, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x99};
  match::FlowKey values;
  name_remote(values, kNone, kRemote6);
  std::memcpy(values.tun_ipv6_src, source.data(), source.size());
  expect_address(&push(values)[14 + 8], source);
  values.tun_src = raw({192, 168, 7, 99});
  expect_address(&push(values)[14 + 8], source);
  name_remote(values, kRemote4, kNone);
  EXPECT_EQ(push(values)[14 + 15], 99);
  std::memset(values.tun_ipv6_src, 0, 16);
  name_remote(values, kNone, kRemote6);
  expect_address(&push(values)[14 + 8], kLocal6);
  egress.local_from_flow = false;
  std::memcpy(values.tun_ipv6_src, source.data(), source.size());
  expect_address(&push(values)[14 + 8], kLocal6);
}

class TunnelIngressTest : public ::testing::Test {
 protected:
  TunnelIngressTest() { EXPECT_TRUE(enable_tunnel_fields()); }

  TunnelIngress::Tunnel any_tunnel(TunnelKind kind) {
    TunnelIngress::Tunnel tunnel;
    tunnel.key.kind = kind;
    tunnel.any_local = tunnel.any_remote = tunnel.any_id = true;
    tunnel.dst_port = packet::default_port(kind);
    tunnel.inlet = inlet;
    return tunnel;
  }

  TestSwitch sw{2};
  std::shared_ptr<const Port> inlet = std::make_shared<Port>();
};

rte_mbuf* encapsulated(const TunnelSpec& spec, const Bytes& inner) {
  rte_mbuf* packet = make_packet(inner);
  EXPECT_EQ(TunnelHeader(spec).push(packet, parse(packet), spec.id, 1), packet::TunnelResult::done);
  return packet;
}

TEST_F(TunnelIngressTest, AddressesComeWithThePacket) {
  const Bytes inner = make_frame({.size = 90});
  for (const TunnelKind kind : {TunnelKind::vxlan, TunnelKind::gre, TunnelKind::gtpu}) {
    const TunnelIngress tunnels(sw.lsi, {any_tunnel(kind)});
    for (const bool ipv6 : {false, true}) {
      for (const bool layer3 : {false, true}) {
        TunnelSpec spec = spec_of(kind, ipv6);
        spec.layer3 = layer3;
        spec.has_key = !layer3;  // the shortest of all headers is GRE's without a key
        rte_mbuf* packet = encapsulated(spec, inner);
        const TunnelIngress::Verdict verdict = tunnels.classify(packet);
        ASSERT_EQ(verdict.what, TunnelIngress::Verdict::What::tunnel);
        EXPECT_EQ(verdict.inlet, inlet.get());
        match::FlowKey values;
        std::memset(static_cast<void*>(&values), 0xa5, sizeof values);
        take_tunnel_fields({&packet, 1}, &values, packet::Depth::full);
        const bool has_id = kind != TunnelKind::gre || !layer3;
        EXPECT_EQ(packet::swap64(values.tunnel_id), has_id ? 77u : 0u);
        EXPECT_EQ(values.tun_src, ipv6 ? 0 : raw(kLocal4));
        EXPECT_EQ(values.tun_dst, ipv6 ? 0 : raw(kRemote4));
        expect_address(values.tun_ipv6_src, ipv6 ? kLocal6 : kNone);
        expect_address(values.tun_ipv6_dst, ipv6 ? kRemote6 : kNone);
        // The addresses that stay behind are outside of the packet.
        Bytes got = bytes_of(packet);
        ASSERT_EQ(got.size(), inner.size());
        EXPECT_TRUE(std::equal(got.begin() + 12, got.end(), inner.begin() + 12));
        rte_pktmbuf_free(packet);
      }
    }
  }
}

TEST_F(TunnelIngressTest, ShallowPipelinesGetTheIdAlone) {
  const TunnelIngress tunnels(sw.lsi, {any_tunnel(TunnelKind::vxlan)});
  rte_mbuf* packet = encapsulated(spec_of(TunnelKind::vxlan, true), make_frame({}));
  ASSERT_EQ(tunnels.classify(packet).what, TunnelIngress::Verdict::What::tunnel);
  match::FlowKey values;
  take_tunnel_fields({&packet, 1}, &values, packet::Depth::l4);
  EXPECT_EQ(packet::swap64(values.tunnel_id), 77u);
  expect_address(values.tun_ipv6_src, kNone);
  rte_pktmbuf_free(packet);
}

/// An IPv4 address and the IPv6 address that begins with its octets are two.
TEST_F(TunnelIngressTest, VersionsAreTold) {
  TunnelIngress::Tunnel four = any_tunnel(TunnelKind::vxlan);
  four.any_remote = false;
  four.key.remote = kLocal4;  // what comes in has our side's addresses exchanged
  const TunnelIngress tunnels(sw.lsi, {four});
  TunnelSpec spec = spec_of(TunnelKind::vxlan, true);
  spec.local = kLocal4;
  rte_mbuf* packet = encapsulated(spec, make_frame({}));
  const TunnelIngress::Verdict verdict = tunnels.classify(packet);
  EXPECT_EQ(verdict.what, TunnelIngress::Verdict::What::drop);
  EXPECT_EQ(verdict.reason, DropReason::tunnel_unknown);
  rte_pktmbuf_free(packet);
}

}  // namespace
}  // namespace headrace::pipeline::test
