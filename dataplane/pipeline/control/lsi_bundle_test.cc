// SPDX-License-Identifier: Apache-2.0
// Bundles of flows, groups and meters: packets meet all of one or nothing, also while they come; a
// bundle that fails leaves groups and meters with their counts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>

#include "pipeline/program/meter.h"
#include "pipeline/terms/of_errors.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {
namespace {

using match::Field;
using ::testing::SizeIs;

constexpr uint32_t kGroup = 7;
constexpr uint32_t kWatched = 8;
constexpr uint32_t kMeter = 5;

GroupMod group_to(PortNo port, GroupMod::Command command = GroupMod::Command::add) {
  GroupMod mod;
  mod.command = command;
  mod.group_id = kGroup;
  mod.type = GroupMod::Type::indirect;
  mod.buckets = {{.actions = {OutputAction{port}}}};
  return mod;
}

MeterMod meter_of(uint32_t rate, MeterMod::Command command = MeterMod::Command::add) {
  MeterMod mod;
  mod.command = command;
  mod.meter_id = kMeter;
  mod.flags = kMeterPktps | kMeterBurst;
  mod.bands = {{.type = MeterBand::Type::drop, .rate = rate, .burst_size = rate}};
  return mod;
}

match::Match to_address(uint32_t address) {
  return make_match({{Field::eth_type, 0x0800}, {Field::ipv4_dst, address}});
}

TEST(LsiBundle, ThatFailsLeavesGroupsAndMetersTheirCounts) {
  TestSwitch sw(3);
  ASSERT_TRUE(sw.lsi.group_mod(group_to(2)));
  ASSERT_TRUE(sw.lsi.meter_mod(meter_of(1)));
  const InstructionList both = {MeterInstruction{kMeter}, ApplyActions{{GroupAction{kGroup}}}};
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 5, {}, both)));
  sw.send(1, std::vector<Bytes>(4, make_frame({})));
  const auto holds = [&] {
    const std::vector<GroupStats> groups = sw.lsi.group_stats(kGroup);
    ASSERT_THAT(groups, SizeIs(1));
    const uint64_t passed = sw.take(2).size();
    EXPECT_GT(passed, 0u);
    EXPECT_EQ(groups[0].packets, passed);
    EXPECT_EQ(groups[0].buckets[0].packets, passed);
    const auto meters = sw.lsi.meter_stats(kMeter);
    ASSERT_TRUE(meters);
    EXPECT_EQ((*meters)[0].packets, 4u);
    EXPECT_EQ((*meters)[0].bands[0].packets, 4u - passed);
    sw.ports[2].sent.resize(passed);
  };
  holds();
  GroupMod no_group;
  no_group.command = GroupMod::Command::remove;
  no_group.group_id = kGroup;
  MeterMod no_meter;
  no_meter.command = MeterMod::Command::remove;
  no_meter.meter_id = kMeter;
  const BundleItem wrong = add_flow(0, 7, {}, {ApplyActions{{OutputAction{0}}}});
  const std::vector<std::vector<BundleItem>> bundles = {
      {group_to(3, GroupMod::Command::modify), meter_of(9, MeterMod::Command::modify), wrong},
      {group_to(3, GroupMod::Command::modify), group_to(1, GroupMod::Command::modify), wrong},
      {no_group, no_meter, wrong},
      {no_group, no_meter, group_to(3), meter_of(9), wrong},
  };
  for (const std::vector<BundleItem>& bundle : bundles) {
    ASSERT_FALSE(sw.lsi.apply_bundle(bundle));
    holds();
  }
  EXPECT_EQ(sw.flow().packets, 4u);
}

/// Grace periods of one reader, by counting its bursts.
class CountingReclaimer final : public Reclaimer {
 public:
  void quiesce() { bursts_.fetch_add(1); }
  void defer(std::function<void()> function) override {
    waiting_.emplace_back(bursts_.load(), std::move(function));
  }
  /// Runs what is due; all, once there is no reader.
  void reclaim(bool all = false) {
    while (!waiting_.empty() && (all || bursts_.load() > waiting_.front().first + 1)) {
      const std::function<void()> function = std::move(waiting_.front().second);
      waiting_.pop_front();
      function();
    }
  }

 private:
  std::atomic<uint64_t> bursts_{0};
  std::deque<std::pair<uint64_t, std::function<void()>>> waiting_;
};

/// A port that says how many frames to each of three addresses left by it.
struct CountPort final : PortIo {
  uint16_t rx(uint16_t, std::span<rte_mbuf*>) noexcept override { return 0; }
  uint16_t tx(uint16_t, std::span<rte_mbuf*> packets) noexcept override {
    for (rte_mbuf* packet : packets) {
      ++to[rte_pktmbuf_mtod(packet, const uint8_t*)[33]];
      rte_pktmbuf_free(packet);
    }
    return static_cast<uint16_t>(packets.size());
  }
  std::array<unsigned, 4> to{};
};

/// Of each burst a third of the packets go by flows alone, a third by a group, which a failover
/// group watches, and a third by a meter. A bundle turns all of them from one port to the other and
/// the meter from everything to next to nothing, and back.
TEST(LsiBundle, IsSeenWholeByPacketsThatComeMeanwhile) {
  start_eal();
  CountingReclaimer reclaimer;
  CapturePunts punts;
  std::array<CountPort, 3> ports;
  Lsi lsi({.id = 1, .name = "test"}, reclaimer);
  for (PortNo number = 1; number <= 3; ++number) {
    PortSpec spec;
    spec.number = number;
    spec.name = fmt::format("p{}", number);
    spec.io = &ports[number - 1];
    ASSERT_TRUE(lsi.add_port(spec));
  }
  constexpr unsigned kEach = 10;
  constexpr uint32_t kAmple = 10'000'000;
  GroupMod watching;
  watching.group_id = kWatched;
  watching.type = GroupMod::Type::fast_failover;
  watching.buckets = {{.watch_group = kGroup, .actions = {GroupAction{kGroup}}},
                      {.watch_port = 1, .actions = {OutputAction{1}}}};
  ASSERT_TRUE(lsi.group_mod(group_to(2)));
  ASSERT_TRUE(lsi.group_mod(watching));
  ASSERT_TRUE(lsi.meter_mod(meter_of(kAmple)));
  const auto flows = [](PortNo port) {
    return std::array{
        add_flow(0, 5, to_address(1), {ApplyActions{{OutputAction{port}}}}),
        add_flow(0, 5, to_address(2), {ApplyActions{{GroupAction{kWatched}}}}),
        add_flow(0, 5, to_address(3),
                 {MeterInstruction{kMeter}, ApplyActions{{OutputAction{port}}}}),
    };
  };
  for (const FlowMod& flow : flows(2)) ASSERT_TRUE(lsi.flow_mod(flow));

  std::atomic<bool> stop{false};
  std::array<std::atomic<uint64_t>, 2> seen{};  // bursts by port
  std::atomic<uint64_t> mixed{0};
  std::thread reader([&] {
    std::vector<Bytes> frames;
    for (unsigned i = 0; i < 3 * kEach; ++i) frames.push_back(make_frame({.ip_dst = 1 + i % 3}));
    Executor executor(0, punts);
    while (!stop.load()) {
      reclaimer.quiesce();
      std::vector<rte_mbuf*> packets;
      for (const Bytes& frame : frames) packets.push_back(make_packet(frame));
      for (CountPort& port : ports) port.to = {};
      executor.set_time(rte_rdtsc());
      executor.run(lsi.program(), 1, packets);
      executor.flush();
      const size_t turned = ports[2].to[1] != 0 ? 1 : 0;
      const CountPort& used = ports[1 + turned];
      // A new meter of one packet per second lets two pass at once.
      const bool metered = turned == 0 ? used.to[3] == kEach : used.to[3] < kEach / 2;
      const bool whole = used.to[1] == kEach && used.to[2] == kEach && metered;
      if (!whole) mixed.fetch_add(1);
      seen[turned].fetch_add(1);
    }
  });
  uint64_t bundles = 0;
  // Until enough bursts of both kinds have met enough changes.
  while ((bundles < 2000 || seen[0] < 1000 || seen[1] < 1000) && mixed == 0) {
    const bool turn = bundles++ % 2 == 0;
    const PortNo port = turn ? 3 : 2;
    std::vector<BundleItem> items{group_to(port, GroupMod::Command::modify),
                                  meter_of(turn ? 1 : kAmple, MeterMod::Command::modify)};
    for (const FlowMod& flow : flows(port)) items.emplace_back(flow);
    if (turn) std::reverse(items.begin(), items.end());
    ASSERT_TRUE(lsi.apply_bundle(items));
    reclaimer.reclaim();
  }
  stop = true;
  reader.join();
  EXPECT_EQ(mixed, 0u);
  for (PortNo number = 1; number <= 3; ++number) ASSERT_TRUE(lsi.remove_port(number));
  reclaimer.reclaim(true);
}

}  // namespace
}  // namespace headrace::pipeline::test
