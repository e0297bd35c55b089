// SPDX-License-Identifier: Apache-2.0
// Which bucket a packet takes when ports and groups come and go: fast failover by watched ports and
// groups, and flows of select groups that stay where they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "pipeline/terms/of_errors.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {
namespace {

using testing::SizeIs;

GroupMod make_group(uint32_t id, GroupMod::Type type, std::vector<Bucket> buckets) {
  GroupMod mod;
  mod.group_id = id;
  mod.type = type;
  mod.buckets = std::move(buckets);
  return mod;
}

uint64_t dropped(const Lsi& lsi, DropReason reason) {
  return lsi.drops()[static_cast<size_t>(reason)];
}

/// Group 1 prefers group 2, which lives by port 2 or by group 3, which lives by port 3; else
/// port 4.
class WatchGroupTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sw_.lsi.group_mod(make_group(3, GroupMod::Type::fast_failover,
                                             {{.watch_port = 3, .actions = {OutputAction{3}}}})));
    ASSERT_TRUE(sw_.lsi.group_mod(make_group(2, GroupMod::Type::fast_failover,
                                             {{.watch_port = 2, .actions = {OutputAction{2}}},
                                              {.watch_group = 3, .actions = {GroupAction{3}}}})));
    ASSERT_TRUE(sw_.lsi.group_mod(make_group(1, GroupMod::Type::fast_failover,
                                             {{.watch_group = 2, .actions = {GroupAction{2}}},
                                              {.watch_port = 4, .actions = {OutputAction{4}}}})));
    ASSERT_TRUE(sw_.lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{GroupAction{1}}}})));
  }

  /// The port that a packet leaves by; 0: none.
  PortNo leaves_by() {
    sw_.send(1, {make_frame({})});
    PortNo by = 0;
    for (const PortNo port : {2u, 3u, 4u}) {
      if (!sw_.take(port).empty()) by = port;
    }
    return by;
  }

  TestSwitch sw_{4};
};

TEST_F(WatchGroupTest, FollowsTheLifeOfGroupsThroughGroups) {
  EXPECT_EQ(leaves_by(), 2u);
  sw_.lsi.set_link(2, false, 0);
  EXPECT_EQ(leaves_by(), 3u) << "the group lives by the group that it watches";
  sw_.lsi.set_link(3, false, 0);
  EXPECT_EQ(leaves_by(), 4u) << "no bucket of the group lives";
  sw_.lsi.set_link(4, false, 0);
  EXPECT_EQ(leaves_by(), 0u);
  EXPECT_EQ(dropped(sw_.lsi, DropReason::no_live_bucket), 1u);
  sw_.lsi.set_link(3, true, 0);
  EXPECT_EQ(leaves_by(), 3u);
  sw_.lsi.set_link(2, true, 0);
  EXPECT_EQ(leaves_by(), 2u);
}

TEST_F(WatchGroupTest, ABucketOfAGroupThatIsGoneIsDead) {
  GroupMod change = make_group(1, GroupMod::Type::fast_failover,
                               {{.watch_group = 2, .actions = {OutputAction{2}}},
                                {.watch_port = 4, .actions = {OutputAction{4}}}});
  change.command = GroupMod::Command::modify;
  ASSERT_TRUE(sw_.lsi.group_mod(change));
  EXPECT_EQ(leaves_by(), 2u);
  GroupMod remove;
  remove.command = GroupMod::Command::remove;
  remove.group_id = 2;
  ASSERT_TRUE(sw_.lsi.group_mod(remove)) << "it is watched, but no bucket leads to it";
  EXPECT_EQ(leaves_by(), 4u);
}

TEST_F(WatchGroupTest, AChangedGroupIsWatchedAtOnce) {
  GroupMod change = make_group(2, GroupMod::Type::fast_failover,
                               {{.watch_port = 9, .actions = {OutputAction{2}}}});
  change.command = GroupMod::Command::modify;
  ASSERT_TRUE(sw_.lsi.group_mod(change));
  EXPECT_EQ(leaves_by(), 4u) << "it lives by a port that is not there";
}

TEST(FastFailover, ABucketMustSayWhatItLivesBy) {
  TestSwitch sw(2);
  const OfResult<> done = sw.lsi.group_mod(
      make_group(1, GroupMod::Type::fast_failover, {{.actions = {OutputAction{2}}}}));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), of_error::kGroupBadWatch);
}

constexpr uint16_t kFlows = 300;

/// A select group over ports 2, 3 and 4, each bucket alive as long as its port, and many flows.
class SelectTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    std::vector<Bucket> buckets;
    for (const PortNo port : {2u, 3u, 4u}) {
      buckets.push_back({.weight = 1, .watch_port = port, .actions = {OutputAction{port}}});
    }
    if (GetParam()) buckets[0].actions.emplace_back(SelectMemoryAction{60});
    ASSERT_TRUE(sw_.lsi.group_mod(make_group(1, GroupMod::Type::select, buckets)));
    ASSERT_TRUE(sw_.lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{GroupAction{1}}}})));
  }

  /// The port of each flow, by its number; every packet arrives.
  std::map<uint16_t, PortNo> ways() {
    std::map<uint16_t, PortNo> ways;
    for (uint16_t flow = 0; flow < kFlows; ++flow) {
      sw_.send(1, {make_frame({.l4_src = flow})});
      for (const PortNo port : {2u, 3u, 4u}) {
        if (!sw_.take(port).empty()) ways[flow] = port;
      }
    }
    EXPECT_THAT(ways, SizeIs(kFlows));
    return ways;
  }

  TestSwitch sw_{4};
};

INSTANTIATE_TEST_SUITE_P(Memory, SelectTest, testing::Bool(),
                         [](const auto& has) { return has.param ? "stateful" : "stateless"; });

TEST_P(SelectTest, FlowsStayWhereTheyAre) {
  const auto before = ways();
  EXPECT_EQ(ways(), before);
  for (const PortNo port : {2u, 3u, 4u}) {
    const auto taken = std::count_if(before.begin(), before.end(),
                                     [port](const auto& way) { return way.second == port; });
    EXPECT_NEAR(static_cast<double>(taken), kFlows / 3.0, kFlows / 6.0);
  }
}

TEST_P(SelectTest, OnlyTheFlowsOfADeadBucketMove) {
  const auto before = ways();
  sw_.lsi.set_link(3, false, 0);
  const auto without = ways();
  size_t moved_to_2 = 0;
  size_t moved = 0;
  for (const auto& [flow, port] : before) {
    if (port != 3) {
      ASSERT_EQ(without.at(flow), port) << "flow " << flow << " had no reason to move";
      continue;
    }
    ASSERT_NE(without.at(flow), 3u);
    ++moved;
    moved_to_2 += without.at(flow) == 2 ? 1 : 0;
  }
  EXPECT_GT(moved_to_2, moved / 4) << "they spread over what lives";
  EXPECT_LT(moved_to_2, moved * 3 / 4);

  sw_.lsi.set_link(3, true, 0);
  // A memory keeps the flows where they went; a hash brings them back to where they were.
  EXPECT_EQ(ways(), GetParam() ? without : before);
}

/// The replicas of a function behind two groups of a pair, on two LSIs: what comes in at port 1 of
/// the first goes to ports 2, 3, ..., what answers it, at port 1 of the second, likewise there.
class PairTest : public testing::Test {
 protected:
  static GroupMod group(unsigned replicas, GroupMod::Command command) {
    std::vector<Bucket> buckets;
    for (PortNo port = 2; port < 2 + replicas; ++port) {
      buckets.push_back({.weight = 1, .actions = {SelectMemoryAction{60, 9}, OutputAction{port}}});
    }
    GroupMod mod = make_group(1, GroupMod::Type::select, buckets);
    mod.command = command;
    return mod;
  }

  void SetUp() override {
    for (TestSwitch* sw : {&there_, &back_}) {
      ASSERT_TRUE(sw->lsi.group_mod(group(1, GroupMod::Command::add)));
      ASSERT_TRUE(sw->lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{GroupAction{1}}}})));
    }
  }

  static PortNo way(TestSwitch& sw, const Bytes& frame) {
    sw.send(1, {frame});
    PortNo found = 0;
    for (const PortNo port : {2u, 3u, 4u}) {
      if (!sw.take(port).empty()) found = port;
    }
    return found;
  }
  PortNo there(uint16_t flow) { return way(there_, make_frame({.l4_src = flow})); }
  PortNo back(uint16_t flow) {
    return way(back_, make_frame({.dst = {0x02, 0, 0, 0, 0, 9},
                                  .src = {0x02, 0, 0, 0, 0, 8},
                                  .ip_src = 0x0a000002,
                                  .ip_dst = 0x0a000001,
                                  .l4_src = 2000,
                                  .l4_dst = flow}));
  }

  TestSwitch there_{4, 1};
  TestSwitch back_{4, 2};
};

TEST_F(PairTest, AFlowAndItsAnswersGoToOneReplicaAlsoWhenMoreCome) {
  for (uint16_t flow = 0; flow < 100; ++flow) ASSERT_EQ(there(flow), 2u);
  // One side knows of the second replica before the other does.
  ASSERT_TRUE(there_.lsi.group_mod(group(2, GroupMod::Command::modify)));
  size_t second = 0;
  for (uint16_t flow = 100; flow < 200; ++flow) second += there(flow) == 3u ? 1 : 0;
  EXPECT_GT(second, 20u);
  EXPECT_LT(second, 80u);
  for (uint16_t flow = 150; flow < 200; ++flow) ASSERT_EQ(back(flow), 2u) << "there is one there";
  ASSERT_TRUE(back_.lsi.group_mod(group(2, GroupMod::Command::modify)));
  for (uint16_t flow = 0; flow < 200; ++flow) {
    const PortNo first = there(flow);
    ASSERT_EQ(back(flow), first) << flow;
    if (flow < 100) {
      ASSERT_EQ(first, 2u) << "a flow that was there stays";
    }
  }
  // Also where the answer is what is seen first.
  ASSERT_TRUE(there_.lsi.group_mod(group(3, GroupMod::Command::modify)));
  ASSERT_TRUE(back_.lsi.group_mod(group(3, GroupMod::Command::modify)));
  for (uint16_t flow = 300; flow < 400; ++flow) ASSERT_EQ(back(flow), there(flow)) << flow;
}

}  // namespace
}  // namespace headrace::pipeline::test
