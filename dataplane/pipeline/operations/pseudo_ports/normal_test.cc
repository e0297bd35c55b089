// SPDX-License-Identifier: Apache-2.0
// NORMAL: learning beside the reference, and VLANs of ports, as ovs-vswitchd.conf.db(5) has each
// vlan_mode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "pipeline/testing/reference.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Mode = PortVlans::Mode;

const MacAddress kA{2, 0, 0, 0, 0, 0xa};
const MacAddress kB{2, 0, 0, 0, 0, 0xb};
constexpr int kUntagged = -1;

/// A frame to nobody known; its tag adds four octets.
Bytes frame(int vlan, MacAddress from = kA, MacAddress to = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) {
  return make_frame({.dst = to, .src = from, .vlan = vlan, .size = vlan < 0 ? 60u : 64u});
}

PortVlans vlans(Mode mode, uint16_t tag, std::vector<uint16_t> trunks = {}) {
  PortVlans made{.mode = mode, .tag = tag};
  if (!trunks.empty()) made.trunks.reset();
  for (const uint16_t vlan : trunks) made.trunks.set(vlan);
  return made;
}

class Normal : public ::testing::Test {
 protected:
  Normal() {
    EXPECT_TRUE(
        sw.lsi.flow_mod(add_flow(0, 0, {}, {ApplyActions{{OutputAction{.port = kPortNormal}}}})));
  }
  [[nodiscard]] uint64_t dropped(DropReason reason) const {
    return sw.lsi.drops()[static_cast<size_t>(reason)];
  }
  TestSwitch sw{4};
};

TEST_F(Normal, AccessPortsAreInOneVlanAndShowNoTag) {
  sw.lsi.set_port_vlans(1, vlans(Mode::access, 10));
  sw.lsi.set_port_vlans(2, vlans(Mode::access, 10));
  sw.lsi.set_port_vlans(3, vlans(Mode::access, 20));
  sw.send(1, {frame(kUntagged)});
  EXPECT_THAT(sw.take(2), ElementsAre(frame(kUntagged)));
  EXPECT_THAT(sw.take(3), IsEmpty());
  EXPECT_THAT(sw.take(4), ElementsAre(frame(10))) << "a trunk shows the tag";
  sw.send(4, {frame(20), frame(kUntagged)});
  EXPECT_THAT(sw.take(3), ElementsAre(frame(kUntagged)));
  EXPECT_THAT(sw.take(1), IsEmpty());
  sw.send(1, {frame(10)});
  EXPECT_EQ(dropped(DropReason::vlan_refused), 1u) << "no tags at an access port";
  EXPECT_EQ(rte_mempool_in_use_count(mbuf_pool()), 0u);
}

TEST_F(Normal, TrunksCarryWhatTheyAreGiven) {
  sw.lsi.set_port_vlans(2, vlans(Mode::trunk, 0, {10, 11}));
  sw.lsi.set_port_vlans(3, vlans(Mode::trunk, 0, {0}));
  sw.send(1, {frame(10), frame(12), frame(kUntagged)});
  EXPECT_THAT(sw.take(2), ElementsAre(frame(10)));
  EXPECT_THAT(sw.take(3), ElementsAre(frame(kUntagged)));
  EXPECT_THAT(sw.take(4), SizeIs(3));
  sw.send(2, {frame(kUntagged)});
  EXPECT_EQ(dropped(DropReason::vlan_refused), 1u);
}

TEST_F(Normal, NativePortsTagTheirOwnVlanOrNot) {
  sw.lsi.set_port_vlans(1, vlans(Mode::native_tagged, 10, {11}));
  sw.lsi.set_port_vlans(2, vlans(Mode::native_untagged, 10, {11}));
  sw.send(1, {frame(kUntagged), frame(11), frame(12)});
  EXPECT_THAT(sw.take(2), ElementsAre(frame(kUntagged), frame(11)));
  EXPECT_THAT(sw.take(4), ElementsAre(frame(10), frame(11)));
  sw.send(2, {frame(kUntagged)});
  EXPECT_THAT(sw.take(1), ElementsAre(frame(10)));
}

TEST_F(Normal, AddressesAreLearnedPerVlan) {
  sw.send(1, {frame(10, kA)});
  sw.send(2, {frame(11, kA)});
  for (PortNo number = 1; number <= 4; ++number) sw.take(number);
  sw.send(3, {frame(10, kB, kA), frame(11, kB, kA)});
  EXPECT_THAT(sw.take(1), ElementsAre(frame(10, kB, kA)));
  EXPECT_THAT(sw.take(2), ElementsAre(frame(11, kB, kA)));
  EXPECT_THAT(sw.take(4), IsEmpty());
  EXPECT_EQ(sw.lsi.learned_macs().front().vlan / 10, 1u);
  sw.lsi.set_port_vlans(1, vlans(Mode::trunk, 0, {12}));
  sw.send(3, {frame(10, kB, kA)});
  EXPECT_THAT(sw.take(4), SizeIs(1)) << "what was learned there is forgotten";
}

TEST_F(Normal, ATagThatRulesSetIsTheVlan) {
  sw.lsi.set_port_vlans(2, vlans(Mode::access, 10));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(
      0, 1, make_match({{match::Field::in_port, 1}}),
      {ApplyActions{{PushVlanAction{0x8100}, set_field(match::Field::vlan_vid, 0x1000 | 10),
                     OutputAction{.port = kPortNormal}}}})));
  sw.send(1, {frame(kUntagged)});
  EXPECT_THAT(sw.take(2), ElementsAre(frame(kUntagged)));
  EXPECT_THAT(sw.take(3), ElementsAre(frame(10)));
}

TEST_F(Normal, PriorityTagsLeaveOnlyWhereTheyAreAskedFor) {
  PortVlans asks = vlans(Mode::trunk, 0);
  asks.priority_tags = PortVlans::PriorityTags::if_nonzero;
  sw.lsi.set_port_vlans(2, asks);
  asks.priority_tags = PortVlans::PriorityTags::always;
  sw.lsi.set_port_vlans(3, asks);
  Bytes urgent = frame(0);
  urgent[14] = 5 << 5;
  sw.send(1, {urgent, frame(0), frame(kUntagged)});
  EXPECT_THAT(sw.take(2), ElementsAre(urgent, frame(kUntagged), frame(kUntagged)));
  EXPECT_THAT(sw.take(3), ElementsAre(urgent, frame(0), frame(0)));
  EXPECT_THAT(sw.take(4), ElementsAre(frame(kUntagged), frame(kUntagged), frame(kUntagged)));
}

TEST_F(Normal, ProtectedPortsDoNotMeet) {
  PortVlans alone;
  alone.is_protected = true;
  sw.lsi.set_port_vlans(1, alone);
  sw.lsi.set_port_vlans(2, alone);
  sw.send(1, {frame(kUntagged, kA)});
  EXPECT_THAT(sw.take(2), IsEmpty());
  EXPECT_THAT(sw.take(3), SizeIs(1));
  sw.send(2, {frame(kUntagged, kB, kA)});
  EXPECT_EQ(dropped(DropReason::port_protected), 1u);
  EXPECT_EQ(rte_mempool_in_use_count(mbuf_pool()), 0u);
}

TEST_F(Normal, KeepsToItselfWhatBridgesDoNotForward) {
  const MacAddress lacp{0x01, 0x80, 0xc2, 0, 0, 2};
  sw.send(1, {frame(kUntagged, kA, lacp)});
  EXPECT_THAT(sw.take(2), IsEmpty());
  EXPECT_EQ(dropped(DropReason::reserved_address), 1u);
  EXPECT_THAT(sw.lsi.learned_macs(), IsEmpty());
  sw.send(1, {frame(kUntagged, kA, {0x01, 0x80, 0xc2, 0, 0, 0x10})});
  EXPECT_THAT(sw.take(2), SizeIs(1));
  sw.lsi.set_normal({.forward_reserved = true});
  sw.send(1, {frame(kUntagged, kA, lacp)});
  EXPECT_THAT(sw.take(2), SizeIs(1));
}

TEST_F(Normal, AddressesAgeAsConfigured) {
  sw.lsi.set_normal({.mac_age = std::chrono::seconds(20)});
  sw.send(1, {frame(kUntagged)});
  sw.now += 15 * TestSwitch::kHz;
  sw.lsi.expire();
  EXPECT_THAT(sw.lsi.learned_macs(), SizeIs(1));
  sw.now += 10 * TestSwitch::kHz;
  sw.lsi.expire();
  EXPECT_THAT(sw.lsi.learned_macs(), IsEmpty());
}

/// Bursts in which packets are for addresses that earlier ones brought.
TEST_F(Normal, LearnsAndFloodsAsTheReferenceDoes) {
  std::mt19937 random(3);
  Reference reference(4);
  reference.flow_mod(add_flow(0, 0, {}, {ApplyActions{{OutputAction{.port = kPortNormal}}}}));
  const auto host = [&]() -> MacAddress {
    return {2, 0, 0, 0, 0, static_cast<uint8_t>(1 + random() % 12)};
  };
  for (int round = 0; round < 300; ++round) {
    const PortNo in_port = 1 + random() % 4;
    std::vector<Bytes> frames;
    for (size_t left = 1 + random() % 32; left > 0; --left) {
      const int vlan = random() % 3 == 0 ? static_cast<int>(random() % 3) : kUntagged;
      const MacAddress to =
          random() % 8 == 0 ? MacAddress{0xff, 0xff, 0xff, 0xff, 0xff, 0xff} : host();
      frames.push_back(frame(vlan, host(), to));
      reference.process(in_port, frames.back());
    }
    sw.send(in_port, frames);
    for (PortNo port = 1; port <= 4; ++port) {
      ASSERT_EQ(sw.take(port), std::exchange(reference.sent[port], {}))
          << "round " << round << ", in by " << in_port << ", out by " << port;
    }
  }
}

}  // namespace
}  // namespace headrace::pipeline::test
