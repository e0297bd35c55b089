// SPDX-License-Identifier: Apache-2.0
// Large tables are built elsewhere: packets meet the old table until the new one is there, whole,
// and whatever else changes meanwhile changes after it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/control/flow_tables.h"
#include "pipeline/terms/of_errors.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {
namespace {

using match::Field;
using ::testing::SizeIs;

/// Builds when the test says so.
class HeldBuilder final : public TableBuilder {
 public:
  void build(std::function<void()> work, std::function<void()> done) override {
    ++builds;
    work_ = std::move(work);
    done_ = std::move(done);
  }
  void wait() override {
    ++waits;
    finish();
  }
  void finish() {
    if (!done_) return;
    std::exchange(work_, nullptr)();
    std::exchange(done_, nullptr)();
  }
  unsigned builds{0};
  unsigned waits{0};

 private:
  std::function<void()> work_;
  std::function<void()> done_;
};

constexpr uint32_t kFlows = 2 * kBuiltAtOnce;

class LsiBuildTest : public testing::Test {
 protected:
  LsiBuildTest() {
    start_eal();
    for (PortNo number = 1; number <= 3; ++number) {
      PortSpec spec;
      spec.number = number;
      spec.name = "port";
      spec.name.push_back(static_cast<char>('0' + number));
      spec.io = &ports_[number];
      EXPECT_TRUE(lsi_.add_port(spec));
    }
    for (uint32_t n = 0; n < kFlows; ++n) EXPECT_TRUE(lsi_.flow_mod(exact(n, 2)));
    builder_.finish();
    EXPECT_FALSE(lsi_.changing());
    builder_.builds = builder_.waits = 0;
  }

  static FlowMod exact(uint32_t number, PortNo port) {
    return add_flow(0, 5, make_match({{Field::eth_type, 0x0800}, {Field::ipv4_dst, number}}),
                    {ApplyActions{{OutputAction{port}}}});
  }
  /// Above all others, so that no structure takes it as it is.
  static FlowMod catch_all(PortNo port) {
    return add_flow(0, 100, {}, {ApplyActions{{OutputAction{port}}}});
  }
  /// Where a packet to an address leaves; 0: nowhere.
  PortNo way_of(uint32_t address) {
    std::vector<rte_mbuf*> packets{make_packet(make_frame({.ip_dst = address}))};
    executor_.run(lsi_.program(), 1, packets);
    executor_.flush();
    PortNo way = 0;
    for (auto& [number, port] : ports_) {
      if (!std::exchange(port.sent, {}).empty()) way = number;
    }
    return way;
  }
  std::string structure() { return lsi_.table_stats()[0].structure; }

  ImmediateReclaimer reclaimer_;
  HeldBuilder builder_;
  CapturePunts punts_;
  std::map<PortNo, CapturePort> ports_;
  Lsi lsi_{{.id = 1, .name = "test", .builder = &builder_}, reclaimer_};
  Executor executor_{0, punts_};
};

TEST_F(LsiBuildTest, TheOldTableServesUntilTheNewOneIsThere) {
  ASSERT_TRUE(lsi_.flow_mod(catch_all(3)));
  EXPECT_EQ(builder_.builds, 1u);
  EXPECT_TRUE(lsi_.changing());
  bool visible = false;
  lsi_.when_visible([&] { visible = true; });
  EXPECT_EQ(way_of(7), 2u);
  // Ports publish programs of their own: with the old table.
  PortMod down;
  down.port = 3;
  down.config = down.mask = kPortConfigNoForward;
  ASSERT_TRUE(lsi_.port_mod(down));
  down.config = 0;
  ASSERT_TRUE(lsi_.port_mod(down));
  PortSpec more;
  more.number = 4;
  more.name = "port4";
  more.io = &ports_[4];
  ASSERT_TRUE(lsi_.add_port(more));
  lsi_.expire();
  EXPECT_EQ(way_of(7), 2u);
  EXPECT_FALSE(visible);
  EXPECT_EQ(builder_.waits, 0u);

  builder_.finish();
  EXPECT_TRUE(visible);
  EXPECT_FALSE(lsi_.changing());
  EXPECT_EQ(way_of(7), 3u);
  EXPECT_EQ(way_of(kFlows + 7), 3u);
}

TEST_F(LsiBuildTest, AChangeMeanwhileComesAfterIt) {
  ASSERT_TRUE(lsi_.flow_mod(catch_all(3)));
  FlowMod gone = catch_all(3);
  gone.command = FlowMod::Command::remove_strict;
  ASSERT_TRUE(lsi_.flow_mod(gone));  // waits for the first
  EXPECT_EQ(builder_.waits, 1u);
  builder_.finish();
  EXPECT_EQ(way_of(7), 2u);
  EXPECT_EQ(way_of(kFlows + 7), 0u);
}

TEST_F(LsiBuildTest, ABundleIsVisibleWholeWhenItsTableIs) {
  GroupMod group;
  group.group_id = 4;
  group.type = GroupMod::Type::indirect;
  group.buckets = {{.actions = {OutputAction{2}}}};
  ASSERT_TRUE(lsi_.group_mod(group));
  ASSERT_TRUE(lsi_.flow_mod(add_flow(1, 5, {}, {ApplyActions{{GroupAction{4}}}})));
  FlowMod to_group = exact(8, 2);
  to_group.instructions = {GotoTable{1}};
  ASSERT_TRUE(lsi_.flow_mod(to_group));
  builder_.finish();

  group.command = GroupMod::Command::modify;
  group.buckets = {{.actions = {OutputAction{3}}}};
  std::vector<BundleItem> items{group};
  for (uint32_t n = 0; n < kFlows; ++n) {
    if (n != 8) items.emplace_back(exact(n, 3));
  }
  ASSERT_TRUE(lsi_.apply_bundle(items));
  EXPECT_TRUE(lsi_.changing());
  EXPECT_EQ(way_of(7), 2u);
  EXPECT_EQ(way_of(8), 2u);
  builder_.finish();
  EXPECT_EQ(way_of(7), 3u);
  EXPECT_EQ(way_of(8), 3u);
  EXPECT_EQ(builder_.waits, 0u);

  group.command = GroupMod::Command::remove;
  items = {group, add_flow(0, 5, {}, {ApplyActions{{OutputAction{0}}}})};
  ASSERT_FALSE(lsi_.apply_bundle(items));
  EXPECT_FALSE(lsi_.changing());
  EXPECT_EQ(way_of(8), 3u);
}

TEST_F(LsiBuildTest, EndsBeforeItsTablesDo) {
  {
    Lsi other({.id = 2, .name = "other", .builder = &builder_}, reclaimer_);
    for (uint32_t n = 0; n < kFlows; ++n) ASSERT_TRUE(other.flow_mod(exact(n, kPortInPort)));
    ASSERT_TRUE(other.flow_mod(add_flow(0, 100, {}, {})));
    EXPECT_TRUE(other.changing());
    builder_.waits = 0;
  }
  EXPECT_EQ(builder_.waits, 1u);
}

}  // namespace
}  // namespace headrace::pipeline::test
