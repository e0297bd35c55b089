// SPDX-License-Identifier: Apache-2.0
// Which rules make a pair of ports a direct link, and what is said of those that do not.
#include "pipeline/control/point_to_point_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/control/flow_tables.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {
namespace {

using match::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr PortNo kA = 1;
constexpr PortNo kB = 2;

match::Match from_port(PortNo port) {
  return make_match({{Field::in_port, port}});
}

InstructionList output(PortNo port) {
  return {ApplyActions{{OutputAction{port}}}};
}

class PointToPointPathTest : public testing::Test {
 protected:
  void add(uint8_t table, uint16_t priority, const match::Match& match,
           const InstructionList& instructions) {
    ASSERT_TRUE(sw_.lsi.flow_mod(add_flow(table, priority, match, instructions)));
  }
  /// A's packets all go to B, and nothing else is there.
  void link() { add(0, 10, from_port(kA), output(kB)); }
  PointToPointPath path() { return PointToPointPaths().find(sw_.lsi, kA); }
  std::string reason() { return path().reason; }

  TestSwitch sw_{4};
};

TEST_F(PointToPointPathTest, IsOneRuleForAPort) {
  link();
  const PointToPointPath found = path();
  EXPECT_EQ(found.reason, "");
  ASSERT_THAT(found.legs, SizeIs(1));
  EXPECT_EQ(found.legs[0].out, kB);
  ASSERT_THAT(found.legs[0].rules, SizeIs(1));
  EXPECT_EQ(found.legs[0].rules[0]->priority, 10);
}

TEST_F(PointToPointPathTest, IsARuleInEachOfSeveralTablesAndAnActionSet) {
  add(0, 10, from_port(kA), {WriteActions{{OutputAction{3}}}, GotoTable{2}});
  add(2, 7, from_port(kA), {WriteActions{{OutputAction{kB}}}, WriteMetadata{1, 1}, GotoTable{5}});
  add(5, 0, match::Match{}, {});
  const PointToPointPath found = path();
  EXPECT_EQ(found.reason, "");
  ASSERT_THAT(found.legs, SizeIs(1));
  EXPECT_EQ(found.legs[0].out, kB);
  EXPECT_THAT(found.legs[0].rules, SizeIs(3));
  // Port 3 comes to table 5, too; its own action set leads to B.
  add(0, 10, from_port(3), {WriteActions{{OutputAction{kB}}}, GotoTable{5}});
  EXPECT_EQ(reason(), "packets of port p3 may go to p2 too");
}

TEST_F(PointToPointPathTest, IgnoresRulesThatItsPacketsNeverMeet) {
  link();
  add(0, 9, match::Match{}, {ApplyActions{{OutputAction{kPortController}}}});
  add(0, 20, from_port(3), output(4));
  add(0, 5, make_match({{Field::in_port, kA}, {Field::eth_type, 0x0800}}), output(4));
  EXPECT_EQ(reason(), "");
}

TEST_F(PointToPointPathTest, SaysWhatKeepsAPairOnTheSwitch) {
  struct Case {
    InstructionList instructions;
    std::string says;
  };
  ASSERT_TRUE(sw_.lsi.meter_mod({.flags = 1, .meter_id = 1, .bands = {{.rate = 1000}}}));
  GroupMod group;
  group.group_id = 5;
  group.type = GroupMod::Type::indirect;
  group.buckets.push_back({.actions = {OutputAction{kB}}});
  ASSERT_TRUE(sw_.lsi.group_mod(group));
  const std::vector<Case> cases = {
      {{MeterInstruction{1}, ApplyActions{{OutputAction{kB}}}}, "meter 1"},
      {{ApplyActions{{GroupAction{5}}}}, "group 5"},
      {{ApplyActions{{OutputAction{kPortController}}}}, "controller"},
      {{ApplyActions{{OutputAction{kB}, OutputAction{kPortController}}}}, "controller"},
      {{ApplyActions{{OutputAction{kB}, OutputAction{3}}}}, "several outputs"},
      {{ApplyActions{{OutputAction{kPortNormal}}}}, "NORMAL"},
      {{ApplyActions{{OutputAction{kPortFlood}}}}, "FLOOD"},
      {{ApplyActions{{OutputAction{kPortAll}}}}, "ALL"},
      {{ApplyActions{{OutputAction{kPortInPort}}}}, "back to the port"},
      {{ApplyActions{{set_field(Field::eth_dst, 7), OutputAction{kB}}}}, "changes packets"},
      {{ApplyActions{{SetQueueAction{1}, OutputAction{kB}}}}, "set_queue 1"},
      {{WriteActions{{OutputAction{kB}}}, ApplyActions{{OutputAction{3}}}}, "several outputs"},
      {{}, "dropped"},
      {{GotoTable{3}}, "table 3: no rule takes its packets"},
      {output(9), "no port 9"},
  };
  for (const Case& c : cases) {
    add(0, 10, from_port(kA), c.instructions);
    EXPECT_THAT(reason(), HasSubstr(c.says));
  }
}

TEST_F(PointToPointPathTest, NeedsARuleForAllOfAPort) {
  EXPECT_THAT(reason(), HasSubstr("no rule takes its packets"));
  add(0, 10, make_match({{Field::in_port, kA}, {Field::eth_type, 0x0800}}), output(kB));
  EXPECT_THAT(reason(), HasSubstr("no rule takes all"));
  add(0, 9, from_port(kA), output(kB));
  EXPECT_THAT(reason(), HasSubstr("priority 10: a rule narrower than the port"));
}

TEST_F(PointToPointPathTest, AnIdleTimeoutNeedsTheSwitchAHardOneDoesNot) {
  FlowMod mod = add_flow(0, 10, from_port(kA), output(kB));
  mod.hard_timeout = 60;
  ASSERT_TRUE(sw_.lsi.flow_mod(mod));
  EXPECT_EQ(reason(), "");
  mod.idle_timeout = 60;
  ASSERT_TRUE(sw_.lsi.flow_mod(mod));
  EXPECT_THAT(reason(), HasSubstr("idle timeout"));
}

TEST_F(PointToPointPathTest, SeesOtherSources) {
  link();
  const auto says = HasSubstr("packets of port p3 may go to p2 too");
  const std::vector<InstructionList> others = {
      output(kB), output(kPortFlood), output(kPortNormal), {WriteActions{{OutputAction{kB}}}}};
  for (const InstructionList& other : others) {
    add(0, 10, make_match({{Field::in_port, 3}, {Field::eth_type, 0x0806}}), other);
    EXPECT_THAT(reason(), says);
  }
  add(0, 11, from_port(3), output(4));
  EXPECT_EQ(reason(), "") << "a higher rule takes all of port 3";
  GroupMod group;
  group.group_id = 5;
  group.type = GroupMod::Type::all;
  group.buckets.push_back({.actions = {OutputAction{kB}}});
  ASSERT_TRUE(sw_.lsi.group_mod(group));
  EXPECT_EQ(reason(), "") << "nobody uses the group";
  add(0, 12, from_port(3), {ApplyActions{{GroupAction{5}}}});
  EXPECT_THAT(reason(), says);
}

TEST_F(PointToPointPathTest, ObeysPortConfiguration) {
  link();
  const auto configure = [this](PortNo port, uint32_t config) {
    return sw_.lsi.port_mod({port, sw_.lsi.port_desc(port)->mac, config, config | 0x65})
        .has_value();
  };
  ASSERT_TRUE(configure(kB, kPortConfigNoForward));
  EXPECT_THAT(reason(), HasSubstr("p2 sends nothing on"));
  ASSERT_TRUE(configure(kB, 0));
  ASSERT_TRUE(configure(kA, kPortConfigNoReceive));
  EXPECT_THAT(reason(), HasSubstr("p1 takes nothing in"));
  ASSERT_TRUE(configure(kA, 0));
  EXPECT_EQ(reason(), "");
}

TEST_F(PointToPointPathTest, LeadsThroughPatches) {
  TestSwitch other(2, 1);
  ASSERT_TRUE(sw_.lsi.add_patch({.number = 8, .name = "up"}));
  ASSERT_TRUE(other.lsi.add_patch({.number = 9, .name = "down"}));
  add(0, 10, from_port(kA), output(8));
  EXPECT_THAT(reason(), HasSubstr("patch up leads nowhere"));
  ASSERT_TRUE(Lsi::connect(sw_.lsi, 8, other.lsi, 9));
  ASSERT_TRUE(other.lsi.flow_mod(add_flow(0, 10, from_port(9), output(1))));
  const PointToPointPath found = path();
  EXPECT_EQ(found.reason, "");
  ASSERT_THAT(found.legs, SizeIs(2));
  EXPECT_EQ(found.legs[1].lsi, &other.lsi);
  EXPECT_EQ(found.legs[1].out, 1u);
  add(0, 10, from_port(3), output(8));
  EXPECT_THAT(reason(), HasSubstr("packets of port p3 may go to up too"));
  add(0, 10, from_port(3), {});
  ASSERT_TRUE(other.lsi.flow_mod(add_flow(0, 10, from_port(9), output(9))));
  EXPECT_THAT(reason(), HasSubstr("dropped"));
  other.lsi.disconnect(9);
}

TEST_F(PointToPointPathTest, EndsWherePatchesGoInACircle) {
  ASSERT_TRUE(sw_.lsi.add_patch({.number = 8, .name = "x"}));
  ASSERT_TRUE(sw_.lsi.add_patch({.number = 9, .name = "y"}));
  ASSERT_TRUE(Lsi::connect(sw_.lsi, 8, sw_.lsi, 9));
  add(0, 10, from_port(kA), output(8));
  add(0, 10, from_port(9), output(8));
  EXPECT_THAT(reason(), HasSubstr("circle"));
}

TEST_F(PointToPointPathTest, GivesUpOnLsisOfVeryManyRules) {
  link();
  std::vector<BundleItem> items;
  for (uint32_t i = 0; i <= kMaxPathRules; ++i) {
    const auto table = static_cast<uint8_t>(1 + i / 1000);  // as many as a test's table takes
    items.emplace_back(add_flow(
        table, 10, make_match({{Field::eth_type, 0x0800}, {Field::ipv4_dst, i}}), output(3)));
  }
  ASSERT_TRUE(sw_.lsi.apply_bundle(items));
  EXPECT_THAT(reason(), HasSubstr("more than 16384 rules"));
}

}  // namespace
}  // namespace headrace::pipeline::test
