// SPDX-License-Identifier: Apache-2.0
// Bursts through programs: splitting, patches, groups, meters, packet-out, and the counters kept.
#include "pipeline/execute/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "packet/bytes.h"
#include "pipeline/execute/egress_mtu.h"
#include "pipeline/program/action_program.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {
namespace {

using match::Field;
using ::testing::ElementsAre;
using ::testing::SizeIs;

InstructionList output(PortNo port) {
  return {ApplyActions{{OutputAction{port}}}};
}

uint64_t dropped(const Lsi& lsi, DropReason reason) {
  return lsi.drops()[static_cast<size_t>(reason)];
}

GroupMod make_group(uint32_t id, GroupMod::Type type, std::vector<Bucket> buckets) {
  GroupMod mod;
  mod.group_id = id;
  mod.type = type;
  mod.buckets = std::move(buckets);
  return mod;
}

TEST(Executor, SplitsABurstByTableAndKeepsTheOrderWithinAFlow) {
  TestSwitch sw(3);
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(
      0, 1, make_match({{Field::eth_type, 0x0800}, {Field::ipv4_dst, 1}}), {GotoTable{7}})));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 0, {}, {GotoTable{200}})));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(7, 0, {}, {GotoTable{253}})));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(200, 0, {}, output(2))));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(253, 0, {}, output(3))));
  std::vector<Bytes> frames;
  for (uint16_t i = 0; i < 32; ++i) {
    frames.push_back(make_frame({.ip_dst = i % 3 == 0 ? 1u : 2u, .l4_src = i}));
  }
  sw.send(1, frames);
  std::vector<Bytes> third;
  std::vector<Bytes> others;
  for (size_t i = 0; i < frames.size(); ++i) (i % 3 == 0 ? third : others).push_back(frames[i]);
  EXPECT_EQ(sw.take(3), third);
  EXPECT_EQ(sw.take(2), others);
  EXPECT_EQ(sw.lsi.table_stats()[7].lookups, third.size());
  EXPECT_EQ(sw.lsi.table_stats()[253].matched, third.size());
}

TEST(Executor, WhatAPortDoesNotTakeIsCountedDropped) {
  TestSwitch sw(2);
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, {}, output(2))));
  sw.ports[2].room = 5;
  sw.send(1, std::vector<Bytes>(32, make_frame({})));
  EXPECT_THAT(sw.take(2), SizeIs(5));
  const PortStats stats = sw.lsi.port_stats(2)->at(0);
  EXPECT_EQ(stats.tx_packets, 5u);
  EXPECT_EQ(stats.tx_bytes, 300u);
  EXPECT_EQ(stats.tx_dropped, 27u);
  EXPECT_EQ(dropped(sw.lsi, DropReason::tx_queue_full), 27u);
  EXPECT_EQ(rte_mempool_in_use_count(mbuf_pool()), 0u);
}

TEST(Executor, DropsWhatIsLongerThanThePortsMtuAndSendsTheRest) {
  TestSwitch sw(2);
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, {}, output(2))));
  const auto with_tags = [](size_t size, int tags) {
    Bytes frame = make_frame({.size = size});
    for (int i = 0; i < tags; ++i) {
      const size_t at = 12 + 4 * static_cast<size_t>(i);
      packet::store_be16(&frame[at], i == 0 ? 0x88a8 : 0x8100);
      packet::store_be16(&frame[at + 2], 5);
    }
    return frame;
  };
  const std::vector<Bytes> fit = {with_tags(60, 0), with_tags(1018, 0), with_tags(1018, 1),
                                  with_tags(1022, 2)};
  const std::vector<Bytes> too_long = {with_tags(1019, 0), with_tags(1022, 1), with_tags(1023, 2),
                                       with_tags(1500, 0)};
  std::vector<Bytes> frames;
  std::vector<Bytes> expected;
  for (size_t i = 0; i < 32; ++i) {
    const bool fits = i % 3 != 0;
    frames.push_back(fits ? fit[i % fit.size()] : too_long[i % too_long.size()]);
    if (fits) expected.push_back(frames.back());
  }
  sw.lsi.set_port_mtu(2, 1000);
  sw.send(1, frames);
  EXPECT_EQ(sw.take(2), expected);
  const uint64_t lost = frames.size() - expected.size();
  EXPECT_EQ(dropped(sw.lsi, DropReason::mtu_exceeded), lost);
  EXPECT_EQ(dropped(sw.lsi, DropReason::tx_queue_full), 0u);
  const PortStats stats = sw.lsi.port_stats(2)->at(0);
  EXPECT_EQ(stats.tx_packets, expected.size());
  EXPECT_EQ(stats.tx_bytes, std::accumulate(expected.begin(), expected.end(), uint64_t{0},
                                            [](uint64_t octets, const Bytes& frame) {
                                              return octets + frame.size();
                                            }));
  EXPECT_EQ(stats.tx_dropped, lost);
  EXPECT_EQ(stats.tx_mtu_exceeded, lost);
  sw.send(1, {too_long.back()});
  EXPECT_THAT(sw.take(2), SizeIs(0)) << "a whole burst of them";
  sw.lsi.set_port_mtu(2, 1500);
  sw.send(1, frames);
  EXPECT_EQ(sw.take(2), frames);
  EXPECT_EQ(rte_mempool_in_use_count(mbuf_pool()), 0u);
}

TEST(EgressMtu, CountsAPacketThatIsToBeCutByItsSegments) {
  rte_mbuf* packet = rte_pktmbuf_alloc(mbuf_pool());
  ASSERT_NE(packet, nullptr);
  ASSERT_NE(rte_pktmbuf_append(packet, 2000), nullptr);
  packet->ol_flags = RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IPV4;
  packet->l2_len = 14;
  packet->l3_len = 20;
  packet->l4_len = 20;
  packet->tso_segsz = 1000 - 40 + 4;  // with one VLAN tag's octets to spare
  EXPECT_TRUE(may_be_too_long(std::span(&packet, 1), 1000 + kMtuOverhead));
  EXPECT_FALSE(is_too_long(packet, 1000 + kMtuOverhead));
  ++packet->tso_segsz;
  EXPECT_TRUE(is_too_long(packet, 1000 + kMtuOverhead));
  packet->tso_segsz = 1960;  // one segment, shorter than that
  EXPECT_FALSE(is_too_long(packet, 2000));
  EXPECT_TRUE(is_too_long(packet, 1999));
  EXPECT_FALSE(may_be_too_long(std::span(&packet, 1), UINT32_MAX));
  rte_pktmbuf_free(packet);
}

TEST(Executor, RefusesByPortStateAndConfiguration) {
  TestSwitch sw(3);
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, make_match({{Field::in_port, 1}}), output(2))));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, make_match({{Field::in_port, 3}}), output(3))));
  sw.send(3, {make_frame({})});
  EXPECT_EQ(dropped(sw.lsi, DropReason::input_port), 1u);
  sw.lsi.set_link(2, false, 0);
  sw.send(1, {make_frame({})});
  EXPECT_EQ(dropped(sw.lsi, DropReason::port_down), 1u);
  sw.lsi.set_link(2, true, 0);
  const MacAddress mac{};
  ASSERT_TRUE(sw.lsi.port_mod({2, mac, kPortConfigNoForward, kPortConfigNoForward}));
  sw.send(1, {make_frame({})});
  EXPECT_EQ(dropped(sw.lsi, DropReason::port_no_forward), 1u);
  ASSERT_TRUE(sw.lsi.remove_port(2));
  sw.send(1, {make_frame({})});
  EXPECT_EQ(dropped(sw.lsi, DropReason::port_missing), 1u);
  ASSERT_TRUE(sw.lsi.port_mod({1, mac, kPortConfigNoReceive, kPortConfigNoReceive}));
  sw.send(1, {make_frame({})});
  EXPECT_EQ(dropped(sw.lsi, DropReason::port_no_receive), 1u);
  EXPECT_THAT(sw.take(2), SizeIs(0));
  EXPECT_EQ(rte_mempool_in_use_count(mbuf_pool()), 0u);
}

TEST(Executor, OffersPacketsToADeviceThatKnowsItsLink) {
  CapturePort peerless;
  TestSwitch sw(1);
  ASSERT_TRUE(sw.lsi.add_port(
      {.number = 2, .name = "2", .io = &peerless, .link_up = false, .io_knows_link = true}));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, make_match({{Field::in_port, 1}}), output(2))));
  sw.send(1, {make_frame({})});
  EXPECT_EQ(peerless.sent.size(), 1u) << "the peer came before we asked for the link";
  peerless.room = 0;
  sw.send(1, {make_frame({})});
  EXPECT_EQ(dropped(sw.lsi, DropReason::port_down), 1u);
  EXPECT_EQ(dropped(sw.lsi, DropReason::tx_queue_full), 0u);
  sw.lsi.set_link(2, true, 0);
  sw.send(1, {make_frame({})});
  EXPECT_EQ(dropped(sw.lsi, DropReason::tx_queue_full), 1u);
  EXPECT_EQ(rte_mempool_in_use_count(mbuf_pool()), 0u);
}

TEST(Executor, CrossesAPatchInTheSameCall) {
  TestSwitch a(2, 0);
  TestSwitch b(2, 1);
  ASSERT_TRUE(a.lsi.add_patch({.number = 10, .name = "to-b"}));
  ASSERT_TRUE(b.lsi.add_patch({.number = 20, .name = "to-a"}));
  ASSERT_TRUE(a.lsi.flow_mod(add_flow(0, 1, make_match({{Field::in_port, 1}}), output(10))));
  ASSERT_TRUE(b.lsi.flow_mod(add_flow(0, 1, make_match({{Field::in_port, 20}}), output(2))));
  a.send(1, {make_frame({})});
  EXPECT_EQ(dropped(a.lsi, DropReason::patch_unconnected), 1u);
  ASSERT_TRUE(Lsi::connect(a.lsi, 10, b.lsi, 20));
  std::vector<Bytes> frames;
  for (uint16_t i = 0; i < 70; ++i) frames.push_back(make_frame({.l4_src = i}));
  a.send(1, frames);
  EXPECT_EQ(b.take(2), frames);
  EXPECT_EQ(a.lsi.port_stats(10)->at(0).tx_packets, 71u);
  EXPECT_EQ(b.lsi.port_stats(20)->at(0).rx_packets, 70u);
  ASSERT_TRUE(a.lsi.remove_port(10));
  ASSERT_TRUE(b.lsi.remove_port(20));
}

TEST(Executor, APatchLoopEnds) {
  TestSwitch a(1, 0);
  ASSERT_TRUE(a.lsi.add_patch({.number = 10, .name = "x"}));
  ASSERT_TRUE(a.lsi.add_patch({.number = 11, .name = "y"}));
  ASSERT_TRUE(Lsi::connect(a.lsi, 10, a.lsi, 11));
  ASSERT_TRUE(a.lsi.flow_mod(add_flow(0, 1, {}, output(10))));
  a.send(1, {make_frame({})});
  EXPECT_EQ(dropped(a.lsi, DropReason::patch_depth), 1u);
  EXPECT_EQ(a.lsi.port_stats(11)->at(0).rx_packets, uint64_t{kMaxPatchDepth});
  EXPECT_EQ(rte_mempool_in_use_count(mbuf_pool()), 0u);
}

TEST(Executor, GroupAllGivesEachBucketItsOwnPacket) {
  TestSwitch sw(4);
  ASSERT_TRUE(sw.lsi.group_mod(
      make_group(1, GroupMod::Type::all,
                 {{.actions = {set_field(Field::eth_dst, 0x020000000022), OutputAction{2}}},
                  {.actions = {set_field(Field::eth_dst, 0x020000000033), OutputAction{3}}}})));
  ASSERT_TRUE(
      sw.lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{GroupAction{1}, OutputAction{4}}}})));
  sw.send(1, {make_frame({})});
  EXPECT_THAT(sw.take(2), ElementsAre(make_frame({.dst = {2, 0, 0, 0, 0, 0x22}})));
  EXPECT_THAT(sw.take(3), ElementsAre(make_frame({.dst = {2, 0, 0, 0, 0, 0x33}})));
  EXPECT_THAT(sw.take(4), ElementsAre(make_frame({})));
  const GroupStats stats = sw.lsi.group_stats(1).at(0);
  EXPECT_EQ(stats.packets, 1u);
  EXPECT_EQ(stats.buckets[1].bytes, 60u);
  EXPECT_EQ(stats.references, 1u);
}

TEST(Executor, SelectFollowsWeightsAndKeepsFlowsTogether) {
  TestSwitch sw(4);
  ASSERT_TRUE(sw.lsi.group_mod(make_group(1, GroupMod::Type::select,
                                          {{.weight = 1, .actions = {OutputAction{2}}},
                                           {.weight = 3, .actions = {OutputAction{3}}},
                                           {.weight = 0, .actions = {OutputAction{4}}}})));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{GroupAction{1}}}})));
  std::vector<Bytes> frames;
  for (uint32_t i = 0; i < 2000; ++i) frames.push_back(make_frame({.ip_src = i * 7919}));
  sw.send(1, frames);
  const std::vector<Bytes> second = sw.take(2);
  EXPECT_NEAR(static_cast<double>(second.size()), 500, 80);
  EXPECT_THAT(sw.take(3), SizeIs(2000 - second.size()));
  EXPECT_THAT(sw.take(4), SizeIs(0));
  sw.send(1, second);
  EXPECT_EQ(sw.take(2), second);
}

TEST(Executor, FastFailoverTakesTheFirstLivePort) {
  TestSwitch sw(3);
  ASSERT_TRUE(sw.lsi.group_mod(make_group(1, GroupMod::Type::fast_failover,
                                          {{.watch_port = 2, .actions = {OutputAction{2}}},
                                           {.watch_port = 3, .actions = {OutputAction{3}}}})));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{GroupAction{1}}}})));
  sw.send(1, {make_frame({})});
  EXPECT_THAT(sw.take(2), SizeIs(1));
  sw.lsi.set_link(2, false, 0);
  sw.send(1, {make_frame({})});
  EXPECT_THAT(sw.take(3), SizeIs(1));
  sw.lsi.set_link(3, false, 0);
  sw.send(1, {make_frame({})});
  EXPECT_EQ(dropped(sw.lsi, DropReason::no_live_bucket), 1u);
}

TEST(Executor, MeterDropsAboveItsRate) {
  TestSwitch sw(2);
  MeterMod meter;
  meter.meter_id = 3;
  meter.flags = 1 << 1 | 1 << 2;  // packets per second, burst given
  meter.bands = {{MeterBand::Type::drop, 1000, 10, 0}};
  ASSERT_TRUE(sw.lsi.meter_mod(meter));
  ASSERT_TRUE(
      sw.lsi.flow_mod(add_flow(0, 1, {}, {MeterInstruction{3}, ApplyActions{{OutputAction{2}}}})));
  // Ten seconds of 2000 packets per second, one at a time.
  for (int i = 0; i < 20'000; ++i) {
    sw.now += TestSwitch::kHz / 2000;
    sw.send(1, {make_frame({})});
  }
  const size_t passed = sw.take(2).size();
  EXPECT_NEAR(static_cast<double>(passed), 10'000 + 10, 2);
  const MeterStats stats = sw.lsi.meter_stats(3)->at(0);
  EXPECT_EQ(stats.packets, 20'000u);
  EXPECT_EQ(stats.bands[0].packets, 20'000 - passed);
  EXPECT_EQ(stats.flows, 1u);
  EXPECT_EQ(dropped(sw.lsi, DropReason::meter), 20'000 - passed);
}

TEST(Executor, MeterRaisesDropPrecedence) {
  TestSwitch sw(2);
  MeterMod meter;
  meter.meter_id = 3;
  meter.flags = 1 << 0 | 1 << 2;  // kbit/s
  meter.bands = {{MeterBand::Type::dscp_remark, 1, 1, 1}};
  ASSERT_TRUE(sw.lsi.meter_mod(meter));
  ASSERT_TRUE(
      sw.lsi.flow_mod(add_flow(0, 1, {}, {MeterInstruction{3}, ApplyActions{{OutputAction{2}}}})));
  sw.send(1, std::vector<Bytes>(5, make_frame({.dscp = 10})));  // AF11
  // One kilobit of tolerance takes 60 bytes three times: 60, 120, then past 125.
  EXPECT_THAT(sw.take(2), ElementsAre(make_frame({.dscp = 10}), make_frame({.dscp = 10}),
                                      make_frame({.dscp = 10}), make_frame({.dscp = 12}),
                                      make_frame({.dscp = 12})));
}

TEST(Executor, PacketOutGoesToPortsAndThroughTables) {
  TestSwitch sw(3);
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, {}, output(3))));
  const auto actions = sw.lsi.compile(
      {OutputAction{2}, set_field(Field::eth_src, 0x020000000099), OutputAction{kPortTable}});
  ASSERT_TRUE(actions);
  sw.executor.packet_out(sw.lsi.program(), kPortController, **actions, make_packet(make_frame({})));
  sw.executor.flush();
  EXPECT_THAT(sw.take(2), ElementsAre(make_frame({})));
  EXPECT_THAT(sw.take(3), ElementsAre(make_frame({.src = {2, 0, 0, 0, 0, 0x99}})));
  EXPECT_EQ(sw.lsi.table_stats()[0].lookups, 1u);
  EXPECT_EQ(rte_mempool_in_use_count(mbuf_pool()), 0u);
}

TEST(Executor, ActionSetRunsInItsOwnOrder) {
  TestSwitch sw(2);
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(
      0, 1, {},
      {WriteActions{{OutputAction{2}, set_field(Field::vlan_vid, 0x1007)}}, GotoTable{1}})));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(1, 1, {}, {WriteActions{{PushVlanAction{0x8100}}}})));
  sw.send(1, {make_frame({})});
  Bytes tagged = make_frame({});
  const Bytes tag = {0x81, 0x00, 0x00, 0x07};
  tagged.insert(tagged.begin() + 12, tag.begin(), tag.end());
  EXPECT_THAT(sw.take(2), ElementsAre(tagged));
}

TEST(Executor, NormalLearnsForgetsAndFloods) {
  TestSwitch sw(3);
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 0, {}, output(kPortNormal))));
  const MacAddress a{2, 0, 0, 0, 0, 0xa};
  const MacAddress b{2, 0, 0, 0, 0, 0xb};
  const Bytes to_b = make_frame({.dst = b, .src = a});
  const Bytes to_a = make_frame({.dst = a, .src = b});
  sw.send(1, {to_b});
  EXPECT_THAT(sw.take(2), ElementsAre(to_b));
  EXPECT_THAT(sw.take(3), ElementsAre(to_b));
  sw.send(2, {to_a});
  EXPECT_THAT(sw.take(1), ElementsAre(to_a));
  EXPECT_THAT(sw.take(3), SizeIs(0));
  EXPECT_THAT(sw.lsi.learned_macs(), SizeIs(2));
  sw.send(2, {to_b});  // b is on this very port
  EXPECT_EQ(dropped(sw.lsi, DropReason::input_port), 1u);
  sw.send(3, {to_b});  // and a has moved to port 3
  EXPECT_THAT(sw.take(2), ElementsAre(to_b));
  sw.send(2, {to_a});
  EXPECT_THAT(sw.take(3), ElementsAre(to_a));
  sw.now += 301 * TestSwitch::kHz;
  sw.lsi.expire();
  EXPECT_THAT(sw.lsi.learned_macs(), SizeIs(0));
  sw.send(1, {to_b});
  EXPECT_THAT(sw.take(2), SizeIs(1));
  EXPECT_THAT(sw.take(3), SizeIs(1));
  EXPECT_EQ(rte_mempool_in_use_count(mbuf_pool()), 0u);
}

TEST(Executor, FullPuntQueueIsADrop) {
  TestSwitch sw(1);
  sw.punts.room = 1;
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 0, {}, output(kPortController))));
  sw.send(1, {make_frame({}), make_frame({})});
  EXPECT_THAT(sw.punts.punted, SizeIs(1));
  EXPECT_EQ(dropped(sw.lsi, DropReason::punt_queue_full), 1u);
  EXPECT_EQ(rte_mempool_in_use_count(mbuf_pool()), 0u);
}

}  // namespace
}  // namespace headrace::pipeline::test
