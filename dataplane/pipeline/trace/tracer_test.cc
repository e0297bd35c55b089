// SPDX-License-Identifier: Apache-2.0
// A trace against the executor: on random pipelines and packets both have the same outputs, byte
// for byte, the same packet-ins and the same drops; and a trace leaves no mark.
#include "pipeline/trace/tracer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "pipeline/testing/random_pipeline.h"

namespace headrace::pipeline::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// Octets as a text, which compares.
std::string text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// What became of a packet.
struct Outcome {
  std::map<PortNo, std::vector<std::string>> sent;
  std::vector<std::tuple<uint8_t, PuntReason, std::string>> punts;
  std::map<std::string, uint64_t> drops;
  bool operator==(const Outcome&) const = default;

  void sort() {
    for (auto& [port, frames] : sent) std::sort(frames.begin(), frames.end());
    std::sort(punts.begin(), punts.end());
  }
};

std::map<std::string, uint64_t> named(const DropCounts& before, const DropCounts& after) {
  std::map<std::string, uint64_t> drops;
  for (size_t i = 1; i < after.size(); ++i) {
    if (after[i] != before[i]) {
      drops[std::string(name(static_cast<DropReason>(i)))] = after[i] - before[i];
    }
  }
  return drops;
}

Trace trace_of(const TestSwitch& sw, PortNo in_port, const Bytes& frame) {
  rte_mbuf* packet = make_packet(frame);
  Trace traced = trace(sw.lsi, in_port, packet, {});
  EXPECT_EQ(bytes_of(packet), frame) << "the packet stays as it is";
  rte_pktmbuf_free(packet);
  return traced;
}

Outcome outcome_of(const Trace& traced) {
  Outcome outcome;
  for (const TracedOutput& each : traced.outputs)
    outcome.sent[each.port].push_back(text(each.frame));
  for (const TracedPunt& each : traced.punts) {
    outcome.punts.emplace_back(each.table_id, each.reason, text(each.frame));
  }
  for (const DropReason reason : traced.drops) ++outcome.drops[std::string(name(reason))];
  outcome.sort();
  return outcome;
}

Outcome execute(TestSwitch& sw, PortNo in_port, const Bytes& frame) {
  const DropCounts before = sw.lsi.drops();
  sw.punts.punted.clear();
  sw.send(in_port, {frame});
  Outcome outcome;
  for (const auto& [number, port] : sw.ports) {
    for (const Bytes& frame : sw.take(number)) outcome.sent[number].push_back(text(frame));
  }
  for (const auto& [info, bytes] : sw.punts.punted) {
    outcome.punts.emplace_back(info.table_id, info.reason, text(bytes));
  }
  outcome.drops = named(before, sw.lsi.drops());
  outcome.sort();
  return outcome;
}

/// All counts of an LSI in one text.
std::string counts_of(const TestSwitch& sw) {
  std::string text;
  for (const TableStats& table : sw.lsi.table_stats()) {
    text += std::to_string(table.lookups) + ' ' + std::to_string(table.matched) + ' ';
  }
  for (const GroupStats& group : sw.lsi.group_stats()) text += std::to_string(group.packets) + ' ';
  (void)sw.lsi.for_each_flow(
      {}, [&text](const FlowStats& flow) { text += std::to_string(flow.packets) + ' '; });
  return text + std::to_string(sw.lsi.learned_macs().size());
}

TEST(Tracer, AgreesWithTheExecutorOnRandomPipelines) {
  constexpr int kRounds = 150;
  size_t outputs = 0;
  size_t drops = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::mt19937_64 random(static_cast<uint64_t>(round));
    const Choose choose = [&](uint64_t below) { return below == 0 ? 0 : random() % below; };
    TestSwitch sw(kRandomPorts);
    const RandomPipeline pipeline = make_pipeline(choose);
    for (const GroupMod& group : pipeline.groups) ASSERT_TRUE(sw.lsi.group_mod(group));
    for (const FlowMod& flow : pipeline.flows) ASSERT_TRUE(sw.lsi.flow_mod(flow));
    for (int i = 0; i < 60; ++i) {
      const auto in_port = static_cast<PortNo>(1 + choose(kRandomPorts));
      const Bytes frame = make_random_frame(choose);
      const std::string before = counts_of(sw);
      const DropCounts drops_before = sw.lsi.drops();
      const Trace traced = trace_of(sw, in_port, frame);
      ASSERT_EQ(counts_of(sw), before) << "seed " << round << ": a trace counts";
      ASSERT_EQ(sw.lsi.drops(), drops_before);
      const Outcome told = outcome_of(traced);
      const Outcome done = execute(sw, in_port, frame);
      ASSERT_EQ(told.sent, done.sent) << "seed " << round << "\n" << traced.text;
      ASSERT_EQ(told.punts.size(), done.punts.size()) << "seed " << round << "\n" << traced.text;
      ASSERT_EQ(told.drops, done.drops) << "seed " << round << "\n" << traced.text;
      outputs += told.sent.size();
      drops += told.drops.size();
    }
    ASSERT_EQ(rte_mempool_in_use_count(mbuf_pool()), 0U);
  }
  EXPECT_GT(outputs, 500U) << "the pipelines are to forward something";
  EXPECT_GT(drops, 500U);
}

TEST(Tracer, TellsEachTableWithTheStructureThatAnswered) {
  TestSwitch sw(3);
  FlowMod first =
      add_flow(0, 100,
               make_match({{match::Field::eth_type, 0x0800},
                           {match::Field::ipv4_dst, 0x0a000000, 0xff000000}}),
               {ApplyActions{{set_field(match::Field::eth_dst, 0x020000000009)}}, GotoTable{3}});
  first.cookie = 5;
  ASSERT_TRUE(sw.lsi.flow_mod(first));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(3, 7, {}, {WriteActions{{OutputAction{2}}}})));
  const Trace traced = trace_of(sw, 1, make_frame({.ip_dst = 0x0a010101}));
  EXPECT_THAT(traced.text, HasSubstr("\n 0. ip,nw_dst=10.0.0.0/8, priority 100, cookie 0x5\n"));
  EXPECT_THAT(traced.text, HasSubstr("    (direct: "));
  EXPECT_THAT(traced.text, HasSubstr("    set_field:02:00:00:00:00:09->eth_dst\n"
                                     "     -> dl_dst=02:00:00:00:00:09\n"
                                     "    goto_table:3\n 3. priority 7\n"));
  EXPECT_THAT(traced.text, HasSubstr("--. Executing action set:\n    output:2\n     -> port 2 ("));
  EXPECT_THAT(traced.text, HasSubstr("dl_dst=02:00:00:00:00:09,nw_src="));
  EXPECT_THAT(traced.text, HasSubstr("\nDatapath actions: 2\n"));
}

TEST(Tracer, NamesWhyAPacketEnds) {
  TestSwitch sw(2);
  EXPECT_THAT(trace_of(sw, 1, make_frame({})).text,
              HasSubstr(" 0. No match.\n     -> dropped: table-miss\n"));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{OutputAction{1}}}})));
  EXPECT_THAT(trace_of(sw, 1, make_frame({})).text,
              HasSubstr("Datapath actions: drop (input-port)\n"));
  sw.lsi.set_link(1, false, 0);
  EXPECT_THAT(trace_of(sw, 2, make_frame({})).text,
              HasSubstr("Datapath actions: drop (port-down)\n"));
  EXPECT_THAT(trace_of(sw, 9, make_frame({})).text,
              HasSubstr("Datapath actions: drop (port-missing)\n"));
}

TEST(Tracer, NormalKnowsVlansAndAddresses) {
  TestSwitch sw(4);
  PortVlans access{.mode = PortVlans::Mode::access, .tag = 7};
  sw.lsi.set_port_vlans(1, access);
  sw.lsi.set_port_vlans(2, access);
  access.tag = 8;
  sw.lsi.set_port_vlans(3, access);
  sw.reclaimer.defer([] {});
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{OutputAction{kPortNormal}}}})));
  const MacAddress a{2, 0, 0, 0, 0, 0xa};
  const MacAddress b{2, 0, 0, 0, 0, 0xb};
  // Unknown: to the other port of VLAN 7, and tagged to the trunk.
  for (int known = 0; known < 2; ++known) {
    for (const PortNo in_port : {1, 2, 3, 4}) {
      for (const int vlan : {-1, 7, 8}) {
        for (const MacAddress& to : {a, b, MacAddress{1, 0x80, 0xc2, 0, 0, 2}}) {
          // A source that nobody asks for, so that the trace is what the executor then does.
          const Bytes frame = make_frame({.dst = to, .src = {2, 0, 0, 0, 0, 0x77}, .vlan = vlan});
          const Trace traced = trace_of(sw, in_port, frame);
          const Outcome told = outcome_of(traced);
          EXPECT_EQ(told, execute(sw, in_port, frame)) << traced.text;
        }
      }
    }
    sw.send(1, {make_frame({.dst = b, .src = a})});
    sw.send(3, {make_frame({.dst = a, .src = b})});
    for (const PortNo port : {1, 2, 3, 4}) sw.take(port);
  }
}

TEST(Tracer, FollowsPatchesAndTheirLoops) {
  TestSwitch one(2, 1);
  TestSwitch two(2, 2);
  ASSERT_TRUE(one.lsi.add_patch({.number = 10, .name = "to-two"}));
  ASSERT_TRUE(two.lsi.add_patch({.number = 11, .name = "to-one"}));
  ASSERT_TRUE(one.lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{OutputAction{10}}}})));
  EXPECT_THAT(trace_of(one, 1, make_frame({})).text, HasSubstr("drop (patch-unconnected)"));
  ASSERT_TRUE(Lsi::connect(one.lsi, 10, two.lsi, 11));
  ASSERT_TRUE(two.lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{OutputAction{2}}}})));
  const Trace there = trace_of(one, 1, make_frame({}));
  ASSERT_EQ(there.outputs.size(), 1U);
  EXPECT_EQ(there.outputs[0].port, 2U);
  ASSERT_TRUE(two.lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{OutputAction{kPortInPort}}}})));
  ASSERT_TRUE(one.lsi.flow_mod(add_flow(0, 9, make_match({{match::Field::in_port, 10}}),
                                        {ApplyActions{{OutputAction{kPortInPort}}}})));
  const Trace loop = trace_of(one, 1, make_frame({}));
  EXPECT_THAT(loop.text, HasSubstr("drop (patch-depth)"));
  EXPECT_THAT(loop.outputs, IsEmpty());
}

TEST(Tracer, AStatefulGroupIsNotToldOfATrace) {
  TestSwitch sw(3);
  GroupMod group{.type = GroupMod::Type::select, .group_id = 4};
  for (const PortNo port : {2, 3}) {
    group.buckets.push_back(
        {.weight = 1, .actions = {SelectMemoryAction{100}, OutputAction{port}}});
  }
  ASSERT_TRUE(sw.lsi.group_mod(group));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{GroupAction{4}}}})));
  for (uint16_t flow = 0; flow < 50; ++flow) {
    const Bytes frame = make_frame({.l4_src = flow});
    for (int again = 0; again < 2; ++again) {
      const Outcome told = outcome_of(trace_of(sw, 1, frame));
      EXPECT_EQ(told, execute(sw, 1, frame));
    }
  }
}

}  // namespace
}  // namespace headrace::pipeline::test
