// SPDX-License-Identifier: Apache-2.0
// Flow-mods, groups, meters and ports as their controller sees them, and what they do to packets.
#include "pipeline/control/lsi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/program/meter.h"
#include "pipeline/terms/of_errors.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {
namespace {

using match::Field;
using ::testing::SizeIs;

InstructionList output(PortNo port) {
  return {ApplyActions{{OutputAction{port}}}};
}

/// Table 0: the router's MAC; table 1: prefixes; MACs rewritten, TTL decremented.
void install_router(Lsi& lsi) {
  ASSERT_TRUE(lsi.flow_mod(add_flow(
      0, 10, make_match({{Field::in_port, 1}, {Field::eth_dst, 0x020000000001}}), {GotoTable{1}})));
  for (PortNo port = 2; port <= 3; ++port) {
    ASSERT_TRUE(
        lsi.flow_mod(add_flow(1, 24,
                              make_match({{Field::eth_type, 0x0800},
                                          {Field::ipv4_dst, 0x0a000000 + (port << 8), 0xffffff00}}),
                              {ApplyActions{{set_field(Field::eth_src, 0x02000000aa00 + port),
                                             set_field(Field::eth_dst, 0x02000000bb00 + port),
                                             DecNwTtlAction{}, OutputAction{port}}}})));
  }
}

TEST(Lsi, RoutesThroughTwoTables) {
  TestSwitch sw(3);
  install_router(sw.lsi);
  std::vector<Bytes> frames;
  for (uint32_t i = 0; i < 40; ++i)
    frames.push_back(make_frame({.ip_dst = 0x0a000200 + ((i % 2) << 8) + i}));
  sw.send(1, frames);
  const std::vector<Bytes> sent = sw.take(2);
  ASSERT_THAT(sent, SizeIs(20));
  EXPECT_THAT(sw.take(3), SizeIs(20));
  EXPECT_EQ(sent[3], make_frame({.dst = {2, 0, 0, 0, 0xbb, 2},
                                 .src = {2, 0, 0, 0, 0xaa, 2},
                                 .ip_dst = 0x0a000206,
                                 .ttl = 63}));
  const std::vector<TableStats> tables = sw.lsi.table_stats();
  EXPECT_EQ(tables[0].lookups, 40u);
  EXPECT_EQ(tables[0].matched, 40u);
  EXPECT_EQ(tables[1].matched, 40u);
  FlowFilter first;
  first.table_id = 0;
  EXPECT_EQ(sw.flow(first).packets, 40u);
  EXPECT_EQ(sw.flow(first).bytes, 40u * 60);
  const PortStats port = sw.lsi.port_stats(2)->at(0);
  EXPECT_EQ(port.tx_packets, 20u);
  EXPECT_EQ(port.tx_bytes, 1200u);
  EXPECT_EQ(sw.lsi.port_stats(1)->at(0).rx_packets, 40u);
}

TEST(Lsi, CountsWhatItDropsByReason) {
  TestSwitch sw(3);
  install_router(sw.lsi);
  sw.send(1, {make_frame({.dst = {2, 0, 0, 0, 0, 9}}),         // table 0 misses
              make_frame({.ip_dst = 0x0b000000}),              // table 1 misses
              make_frame({.ip_dst = 0x0a000201, .ttl = 1})});  // expires
  const DropCounts drops = sw.lsi.drops();
  EXPECT_EQ(drops[static_cast<size_t>(DropReason::table_miss)], 2u);
  EXPECT_EQ(drops[static_cast<size_t>(DropReason::ttl_expired)], 1u);
  ASSERT_THAT(sw.punts.punted, SizeIs(1));
  EXPECT_EQ(sw.punts.punted[0].first.reason, PuntReason::invalid_ttl);
  // The actions before dec_ttl were done.
  EXPECT_EQ(sw.punts.punted[0].second, make_frame({.dst = {2, 0, 0, 0, 0xbb, 2},
                                                   .src = {2, 0, 0, 0, 0xaa, 2},
                                                   .ip_dst = 0x0a000201,
                                                   .ttl = 1}));
  EXPECT_EQ(sw.lsi.table_stats()[1].lookups, 2u);
  EXPECT_EQ(sw.lsi.table_stats()[1].matched, 1u);
}

TEST(Lsi, TableMissEntryPuntsAsNoMatch) {
  TestSwitch sw(1);
  FlowMod miss = add_flow(0, 0, {}, {ApplyActions{{OutputAction{kPortController, 128}}}});
  miss.cookie = 77;
  ASSERT_TRUE(sw.lsi.flow_mod(miss));
  sw.send(1, {make_frame({})});
  ASSERT_THAT(sw.punts.punted, SizeIs(1));
  const PuntInfo& info = sw.punts.punted[0].first;
  EXPECT_EQ(info.reason, PuntReason::no_match);
  EXPECT_EQ(info.cookie, 77u);
  EXPECT_EQ(info.max_len, 128);
  EXPECT_EQ(info.in_port, 1u);
}

TEST(Lsi, AddingTheSameFlowReplacesItAndKeepsItsCounts) {
  TestSwitch sw(3);
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 5, {}, output(2))));
  sw.send(1, {make_frame({}), make_frame({})});
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 5, {}, output(3))));
  sw.send(1, {make_frame({})});
  EXPECT_THAT(sw.take(2), SizeIs(2));
  EXPECT_THAT(sw.take(3), SizeIs(1));
  EXPECT_EQ(sw.flow().packets, 3u);
  FlowMod reset = add_flow(0, 5, {}, output(3));
  reset.flags = kFlowResetCounts;
  ASSERT_TRUE(sw.lsi.flow_mod(reset));
  EXPECT_EQ(sw.flow().packets, 0u);
}

TEST(Lsi, LowerPriorityOfTheSameMatchWaitsItsTurn) {
  TestSwitch sw(3);
  const match::Match match = make_match({{Field::eth_type, 0x0800}});
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 5, match, output(2))));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 9, match, output(3))));
  sw.send(1, {make_frame({})});
  EXPECT_THAT(sw.take(3), SizeIs(1));
  FlowMod remove = add_flow(0, 9, match, {});
  remove.command = FlowMod::Command::remove_strict;
  ASSERT_TRUE(sw.lsi.flow_mod(remove));
  sw.send(1, {make_frame({})});
  EXPECT_THAT(sw.take(2), SizeIs(1));
}

TEST(Lsi, ModifyChangesInstructionsOnly) {
  TestSwitch sw(3);
  FlowMod mod = add_flow(0, 5, make_match({{Field::eth_type, 0x0800}}), output(2));
  mod.cookie = 5;
  ASSERT_TRUE(sw.lsi.flow_mod(mod));
  mod.command = FlowMod::Command::modify;
  mod.match = {};
  mod.cookie = 6;
  mod.cookie_mask = ~uint64_t{0};
  mod.instructions = output(3);
  ASSERT_TRUE(sw.lsi.flow_mod(mod));  // the cookie mask excludes it
  EXPECT_EQ(sw.flow().instructions, output(2));
  mod.cookie_mask = 0;
  ASSERT_TRUE(sw.lsi.flow_mod(mod));
  EXPECT_EQ(sw.flow().instructions, output(3));
  EXPECT_EQ(sw.flow().cookie, 5u);
  sw.send(1, {make_frame({})});
  EXPECT_THAT(sw.take(3), SizeIs(1));
}

class Removals : public LsiObserver {
 public:
  void flow_removed(const FlowStats& flow, FlowRemovedReason reason) override {
    seen.emplace_back(reason, flow.packets);
  }
  std::vector<std::pair<FlowRemovedReason, uint64_t>> seen;
};

TEST(Lsi, DeleteHonoursFiltersAndTellsObservers) {
  TestSwitch sw(3);
  Removals removals;
  sw.lsi.add_observer(removals);
  for (PortNo port = 2; port <= 3; ++port) {
    FlowMod mod = add_flow(0, 5, make_match({{Field::eth_type, 0x0800}, {Field::ipv4_dst, port}}),
                           output(port));
    mod.flags = kFlowSendRemoved;
    ASSERT_TRUE(sw.lsi.flow_mod(mod));
  }
  sw.send(1, {make_frame({.ip_dst = 3}), make_frame({.ip_dst = 3})});
  FlowMod remove;
  remove.command = FlowMod::Command::remove;
  remove.table_id = kTableAll;
  remove.out_port = 3;
  ASSERT_TRUE(sw.lsi.flow_mod(remove));
  EXPECT_EQ(sw.lsi.aggregate({})->flows, 1u);
  ASSERT_THAT(removals.seen, SizeIs(1));
  EXPECT_EQ(removals.seen[0], std::pair(FlowRemovedReason::removed, uint64_t{2}));
  sw.lsi.remove_observer(removals);
}

TEST(Lsi, FlowsTimeOut) {
  TestSwitch sw(2);
  Removals removals;
  sw.lsi.add_observer(removals);
  FlowMod mod = add_flow(0, 5, make_match({{Field::eth_type, 0x0800}}), output(2));
  mod.flags = kFlowSendRemoved;
  mod.idle_timeout = 10;
  ASSERT_TRUE(sw.lsi.flow_mod(mod));
  mod.match = make_match({{Field::eth_type, 0x0806}});
  mod.idle_timeout = 0;
  mod.hard_timeout = 12;
  ASSERT_TRUE(sw.lsi.flow_mod(mod));
  sw.now += 8 * TestSwitch::kHz;
  sw.send(1, {make_frame({})});
  sw.now += 3 * TestSwitch::kHz;  // at 11 s: used 3 s ago
  sw.lsi.expire();
  EXPECT_THAT(removals.seen, SizeIs(0));
  sw.now += 2 * TestSwitch::kHz;  // at 13 s
  sw.lsi.expire();
  ASSERT_THAT(removals.seen, SizeIs(1));
  EXPECT_EQ(removals.seen[0].first, FlowRemovedReason::hard_timeout);
  sw.now += 6 * TestSwitch::kHz;  // at 19 s: idle for 11 s
  sw.lsi.expire();
  ASSERT_THAT(removals.seen, SizeIs(2));
  EXPECT_EQ(removals.seen[1], std::pair(FlowRemovedReason::idle_timeout, uint64_t{1}));
  EXPECT_EQ(sw.lsi.aggregate({})->flows, 0u);
  sw.lsi.remove_observer(removals);
}

TEST(Lsi, RefusesWithTheErrorThatTheSpecificationNames) {
  TestSwitch sw(2);
  const auto error_of = [&](const FlowMod& mod) { return sw.lsi.flow_mod(mod).error(); };
  EXPECT_EQ(error_of(add_flow(254, 1, {}, {})), of_error::kFlowModBadTableId);
  EXPECT_EQ(error_of(add_flow(3, 1, {}, {GotoTable{3}})), of_error::kBadInstructionTableId);
  EXPECT_EQ(error_of(add_flow(0, 1, {}, output(0))), of_error::kBadActionOutPort);
  EXPECT_EQ(error_of(add_flow(0, 1, {}, output(kPortTable))), of_error::kBadActionOutPort);
  EXPECT_EQ(error_of(add_flow(0, 1, {}, {ApplyActions{{GroupAction{7}}}})),
            of_error::kBadActionOutGroup);
  EXPECT_EQ(error_of(add_flow(0, 1, {}, {MeterInstruction{7}})), of_error::kMeterUnknown);
  EXPECT_EQ(error_of(add_flow(0, 1, {}, {ApplyActions{{set_field(Field::in_port, 1)}}})),
            of_error::kBadActionSetType);
  EXPECT_EQ(error_of(add_flow(0, 1, {}, {ApplyActions{{PushVlanAction{0x0800}}}})),
            of_error::kBadActionArgument);
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, make_match({{Field::eth_type, 0x0800}}), {})));
  FlowMod overlapping = add_flow(0, 1, make_match({{Field::in_port, 1}}), {});
  overlapping.flags = kFlowCheckOverlap;
  EXPECT_EQ(error_of(overlapping), of_error::kFlowModOverlap);
  overlapping.priority = 2;
  EXPECT_TRUE(sw.lsi.flow_mod(overlapping));
  EXPECT_EQ(sw.lsi.aggregate({})->flows, 2u);
}

TEST(Lsi, TableFull) {
  TestSwitch sw(1);
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, make_match({{Field::metadata, i}}), {})));
  }
  EXPECT_EQ(sw.lsi.flow_mod(add_flow(0, 1, make_match({{Field::metadata, 1000}}), {})).error(),
            of_error::kFlowModTableFull);
  EXPECT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, make_match({{Field::metadata, 7}}), {})));
}

TEST(Lsi, ABundleIsAllOrNothing) {
  TestSwitch sw(3);
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 5, {}, output(2))));
  FlowMod remove;
  remove.command = FlowMod::Command::remove;
  GroupMod group;
  group.group_id = 4;
  group.type = GroupMod::Type::indirect;
  group.buckets = {{.actions = {OutputAction{3}}}};
  const FlowMod use = add_flow(0, 6, {}, {ApplyActions{{GroupAction{4}}}});
  std::vector<BundleItem> items = {group, remove, use, add_flow(0, 7, {}, output(0))};
  const auto failed = sw.lsi.apply_bundle(items);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().index, 3u);
  EXPECT_EQ(failed.error().error, of_error::kBadActionOutPort);
  EXPECT_THAT(sw.lsi.group_descs(), SizeIs(0));
  EXPECT_EQ(sw.flow().instructions, output(2));
  sw.send(1, {make_frame({})});
  EXPECT_THAT(sw.take(2), SizeIs(1));
  EXPECT_EQ(sw.flow().packets, 1u);
  items.pop_back();
  ASSERT_TRUE(sw.lsi.apply_bundle(items));
  sw.send(1, {make_frame({})});
  EXPECT_THAT(sw.take(3), SizeIs(1));
  EXPECT_EQ(sw.lsi.aggregate({})->flows, 1u);
}

/// "delete all groups" and meters in a bundle that fails: they are there again, chains and all.
TEST(Lsi, ABundleThatFailsGivesBackAllGroupsAndMeters) {
  TestSwitch sw(3);
  const auto group = [](uint32_t id, const Action& action) {
    GroupMod mod;
    mod.group_id = id;
    mod.type = GroupMod::Type::indirect;
    mod.buckets = {{.actions = {action}}};
    return mod;
  };
  ASSERT_TRUE(sw.lsi.group_mod(group(9, OutputAction{2})));
  ASSERT_TRUE(sw.lsi.group_mod(group(1, GroupAction{9})));
  MeterMod meter;
  meter.meter_id = 5;
  meter.flags = kMeterPktps;
  meter.bands = {{.type = MeterBand::Type::drop, .rate = 1000}};
  ASSERT_TRUE(sw.lsi.meter_mod(meter));
  ASSERT_TRUE(
      sw.lsi.flow_mod(add_flow(0, 5, {}, {MeterInstruction{5}, ApplyActions{{GroupAction{1}}}})));
  GroupMod no_groups;
  no_groups.command = GroupMod::Command::remove;
  no_groups.group_id = kGroupAll;
  MeterMod no_meters;
  no_meters.command = MeterMod::Command::remove;
  no_meters.meter_id = kMeterAll;
  const std::vector<BundleItem> items = {no_groups, no_meters, group(9, OutputAction{3}),
                                         add_flow(0, 7, {}, output(0))};
  const auto failed = sw.lsi.apply_bundle(items);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().index, 3u);
  EXPECT_THAT(sw.lsi.group_descs(), SizeIs(2));
  EXPECT_EQ(sw.lsi.meter_configs()->size(), 1u);
  EXPECT_EQ(sw.lsi.aggregate({})->flows, 1u);
  sw.send(1, {make_frame({})});
  EXPECT_THAT(sw.take(2), SizeIs(1));
  EXPECT_THAT(sw.take(3), SizeIs(0));
}

/// Rules of one mask, of prefixes, of several masks: what each table is compiled to.
InstructionList to(uint32_t number) {
  return output(2 + number % 2);
}

struct Shape {
  const char* structure;
  FlowMod (*flow)(uint32_t number, const InstructionList& instructions);
};

FlowMod exact(uint32_t number, const InstructionList& instructions) {
  return add_flow(0, 32, make_match({{Field::eth_type, 0x0800}, {Field::ipv4_dst, number}}),
                  instructions);
}

FlowMod prefix(uint32_t number, const InstructionList& instructions) {
  const unsigned length = 26 + number % 7;
  return add_flow(0, static_cast<uint16_t>(length),
                  make_match({{Field::eth_type, 0x0800},
                              {Field::ipv4_dst, number << 8, 0xffffffffu << (32 - length)}}),
                  instructions);
}

FlowMod of_masks(uint32_t number, const InstructionList& instructions) {
  if (number % 2 == 0) return prefix(number, instructions);
  return add_flow(
      0, 7,
      make_match({{Field::in_port, 1}, {Field::eth_type, 0x0800}, {Field::ipv4_dst, number << 8}}),
      instructions);
}

class SmallBundle : public ::testing::TestWithParam<Shape> {
 protected:
  static constexpr uint32_t kFlows = 400;

  void SetUp() override {
    for (uint32_t i = 1; i <= kFlows; ++i) ASSERT_TRUE(sw.lsi.flow_mod(GetParam().flow(i, to(i))));
    ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 0, {}, output(4))));
    ASSERT_EQ(sw.lsi.table_stats()[0].structure, GetParam().structure);
    rebuilds = sw.lsi.table_stats()[0].rebuilds;
  }

  /// The port where a packet of the flow leaves.
  PortNo way_of(uint32_t number) {
    const FlowMod flow = GetParam().flow(number, {});
    const uint32_t address = GetParam().flow == exact ? number : number << 8;
    sw.send(1, {make_frame({.ip_dst = address})});
    PortNo way = 0;
    for (PortNo port = 2; port <= 4; ++port) {
      if (!sw.take(port).empty()) way = port;
    }
    return way;
  }

  FlowMod without(uint32_t number) {
    FlowMod flow = GetParam().flow(number, {});
    flow.command = FlowMod::Command::remove_strict;
    return flow;
  }

  TestSwitch sw{4};
  uint64_t rebuilds{0};
};

TEST_P(SmallBundle, ChangesWhatItSaysAndNothingElse) {
  const auto flow = GetParam().flow;
  std::vector<BundleItem> items = {without(10), without(11), flow(12, output(4)),
                                   flow(kFlows + 1, output(3)), flow(10, output(4))};
  ASSERT_TRUE(sw.lsi.apply_bundle(items));
  EXPECT_EQ(sw.lsi.table_stats()[0].rebuilds, rebuilds) << "it was built anew";
  EXPECT_EQ(way_of(10), 4u);
  EXPECT_EQ(way_of(11), 4u);  // the default's
  EXPECT_EQ(way_of(12), 4u);
  EXPECT_EQ(way_of(kFlows + 1), 3u);
  for (uint32_t i = 13; i <= kFlows; ++i) ASSERT_EQ(way_of(i), 2 + i % 2) << i;
  // What comes singly afterwards goes to the copy, which is the table now.
  ASSERT_TRUE(sw.lsi.flow_mod(flow(11, output(3))));
  ASSERT_TRUE(sw.lsi.flow_mod(without(12)));
  ASSERT_TRUE(sw.lsi.flow_mod(flow(kFlows + 2, output(2))));
  EXPECT_EQ(way_of(11), 3u);
  EXPECT_EQ(way_of(12), 4u);
  EXPECT_EQ(way_of(kFlows + 2), 2u);
}

TEST_P(SmallBundle, ThatFailsLeavesThePublishedTableAlone) {
  const auto flow = GetParam().flow;
  GroupMod group;
  group.group_id = 4;
  group.type = GroupMod::Type::indirect;
  group.buckets = {{.actions = {set_field(Field::tcp_dst, 7), OutputAction{3}}}};
  std::vector<BundleItem> items = {without(10), flow(12, output(4)), flow(kFlows + 1, output(3)),
                                   group, flow(13, output(0))};
  const auto failed = sw.lsi.apply_bundle(items);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().index, 4u);
  EXPECT_EQ(sw.lsi.aggregate({})->flows, kFlows + 1);
  EXPECT_EQ(way_of(kFlows + 1), 4u);
  for (uint32_t i = 1; i <= kFlows; ++i) ASSERT_EQ(way_of(i), 2 + i % 2) << i;
  items.pop_back();
  ASSERT_TRUE(sw.lsi.apply_bundle(items));
  EXPECT_EQ(way_of(10), 4u);
  EXPECT_EQ(way_of(12), 4u);
  EXPECT_EQ(way_of(kFlows + 1), 3u);
}

TEST_P(SmallBundle, ThatFailsUndoesEachOfManyChangesOfAFlow) {
  const auto flow = GetParam().flow;
  FlowMod modified = flow(20, output(4));
  modified.command = FlowMod::Command::modify_strict;
  const std::vector<BundleItem> items = {
      modified,    flow(20, output(3)), without(20), flow(20, output(4)), modified, without(20),
      without(21), flow(21, output(4)), modified,    flow(20, output(0))};
  // A slot that a round freed twice would have two flows in a later one.
  for (int round = 0; round < 50; ++round) {
    ASSERT_FALSE(sw.lsi.apply_bundle(items));
    ASSERT_EQ(sw.lsi.aggregate({})->flows, kFlows + 1);
  }
  for (uint32_t i = 1; i <= kFlows; ++i) ASSERT_EQ(way_of(i), 2 + i % 2) << i;
  ASSERT_TRUE(sw.lsi.apply_bundle(std::vector<BundleItem>(items.begin(), items.end() - 1)));
  EXPECT_EQ(way_of(20), 4u);
  EXPECT_EQ(way_of(21), 4u);
}

TEST_P(SmallBundle, ThatEmptiesTheTableBuildsItAnew) {
  FlowMod all;
  all.command = FlowMod::Command::remove;
  ASSERT_TRUE(
      sw.lsi.apply_bundle(std::vector<BundleItem>{without(3), all, GetParam().flow(5, output(4))}));
  EXPECT_EQ(way_of(5), 4u);
  EXPECT_EQ(way_of(6), 0u);
  EXPECT_EQ(sw.lsi.aggregate({})->flows, 1u);
}

INSTANTIATE_TEST_SUITE_P(Structures, SmallBundle,
                         ::testing::Values(Shape{"hash", exact}, Shape{"prefix", prefix},
                                           Shape{"tuple-space", of_masks}),
                         [](const auto& each) {
                           std::string name = each.param.structure;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Lsi, DeletingAGroupOrMeterDeletesTheFlowsThatUseIt) {
  TestSwitch sw(2);
  for (uint32_t id = 1; id <= 2; ++id) {
    GroupMod group;
    group.group_id = id;
    group.type = GroupMod::Type::indirect;
    group.buckets = {{.actions = {id == 1 ? Action(OutputAction{2}) : Action(GroupAction{1})}}};
    ASSERT_TRUE(sw.lsi.group_mod(group));
  }
  MeterMod meter;
  meter.meter_id = 9;
  meter.flags = 1;
  meter.bands = {{MeterBand::Type::drop, 1000, 0, 0}};
  ASSERT_TRUE(sw.lsi.meter_mod(meter));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{GroupAction{2}}}})));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 2, {}, {MeterInstruction{9}})));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 3, {}, output(2))));
  EXPECT_EQ(sw.lsi.group_stats(1).at(0).references, 1u);
  EXPECT_EQ(sw.lsi.group_stats(2).at(0).references, 1u);
  GroupMod remove;
  remove.command = GroupMod::Command::remove;
  remove.group_id = 1;
  EXPECT_EQ(sw.lsi.group_mod(remove).error(), of_error::kGroupChained);
  remove.group_id = 2;
  ASSERT_TRUE(sw.lsi.group_mod(remove));
  EXPECT_EQ(sw.lsi.aggregate({})->flows, 2u);
  remove.group_id = 1;
  ASSERT_TRUE(sw.lsi.group_mod(remove));
  meter.command = MeterMod::Command::remove;
  ASSERT_TRUE(sw.lsi.meter_mod(meter));
  EXPECT_EQ(sw.flow().priority, 3);
  // A modified flow refers to what it says now.
  meter.command = MeterMod::Command::add;
  ASSERT_TRUE(sw.lsi.meter_mod(meter));
  FlowMod modify = add_flow(0, 3, {}, {MeterInstruction{9}});
  modify.command = FlowMod::Command::modify_strict;
  ASSERT_TRUE(sw.lsi.flow_mod(modify));
  EXPECT_EQ(sw.lsi.meter_stats(9)->at(0).flows, 1u);
}

TEST(Lsi, RetiredRulesWaitForTheGracePeriod) {
  start_eal();
  ManualReclaimer reclaimer;
  Lsi lsi({.id = 0, .name = "t", .clock = {.now = [] { return uint64_t{1}; }, .hz = 1}}, reclaimer);
  Removals removals;
  lsi.add_observer(removals);
  FlowMod mod = add_flow(0, 5, {}, {});
  mod.flags = kFlowSendRemoved;
  ASSERT_TRUE(lsi.flow_mod(mod));
  mod.command = FlowMod::Command::remove;
  ASSERT_TRUE(lsi.flow_mod(mod));
  EXPECT_THAT(removals.seen, SizeIs(0));
  reclaimer.end_grace_period();
  EXPECT_THAT(removals.seen, SizeIs(1));
  lsi.remove_observer(removals);
}

TEST(Lsi, WeightsAreForSelectGroupsOnly) {
  TestSwitch sw(2);
  using Type = GroupMod::Type;
  for (const Type type : {Type::all, Type::indirect, Type::fast_failover, Type::select}) {
    GroupMod group{.type = type, .group_id = 5};
    group.buckets.push_back({.weight = 1, .actions = {OutputAction{1}}});
    if (type == Type::fast_failover) group.buckets[0].watch_port = 1;
    const OfResult<> weighted = sw.lsi.group_mod(group);
    if (type == Type::select) {
      EXPECT_TRUE(weighted);
      continue;
    }
    ASSERT_FALSE(weighted);
    EXPECT_EQ(weighted.error(), of_error::kGroupInvalid);
    group.buckets[0].weight = 0;
    ASSERT_TRUE(sw.lsi.group_mod(group));
    group.buckets[0].weight = 1;
    group.command = GroupMod::Command::modify;
    EXPECT_FALSE(sw.lsi.group_mod(group));
    group.command = GroupMod::Command::remove;
    ASSERT_TRUE(sw.lsi.group_mod(group));
  }
}

}  // namespace
}  // namespace headrace::pipeline::test
