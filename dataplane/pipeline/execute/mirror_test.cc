// SPDX-License-Identifier: Apache-2.0
// Mirrors: what ovs-vswitchd.conf.db(5) says of table Mirror.
#include "pipeline/program/mirror.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/control/point_to_point_path.h"
#include "pipeline/program/action_program.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {
namespace {

using match::Field;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kUntagged = -1;

Bytes frame(int vlan = kUntagged, uint8_t last = 1) {
  return make_frame({.dst = {2, 0, 0, 0, 0, last}, .vlan = vlan, .size = vlan < 0 ? 60u : 64u});
}

Bytes first_20(Bytes bytes) {
  bytes.resize(20);
  return bytes;
}

/// Port 1 sends to 2, with the source address rewritten; 3 is where most mirrors go; 4 listens.
class MirrorTest : public ::testing::Test {
 protected:
  MirrorTest() {
    EXPECT_TRUE(sw.lsi.flow_mod(add_flow(
        0, 10, make_match({{Field::in_port, 1}}),
        {ApplyActions{{set_field(Field::eth_src, 0x0200000000ffULL), OutputAction{.port = 2}}}})));
    EXPECT_TRUE(sw.lsi.flow_mod(add_flow(0, 10, make_match({{Field::in_port, 2}}),
                                         {ApplyActions{{OutputAction{.port = 1}}}})));
  }
  ~MirrorTest() override { EXPECT_EQ(rte_mempool_in_use_count(mbuf_pool()), 0u); }

  void set(std::vector<MirrorConfig> mirrors) {
    int number = 0;
    for (MirrorConfig& each : mirrors) {
      if (each.id.empty()) each.id = fmt::format("m{}", number);
      ++number;
    }
    ASSERT_TRUE(sw.lsi.set_mirrors(std::move(mirrors)));
  }
  MirrorStats stats(const std::string& id = "m0") { return sw.lsi.mirror_stats().at(id); }
  [[nodiscard]] uint64_t dropped(DropReason reason) const {
    return sw.lsi.drops()[static_cast<size_t>(reason)];
  }
  /// What port 2 gets of a frame of port 1.
  static Bytes rewritten(Bytes bytes) {
    bytes[6 + 5] = 0xff;
    return bytes;
  }

  TestSwitch sw{5};
};

MirrorConfig to_port(PortNo port, std::vector<PortNo> received, std::vector<PortNo> sent = {}) {
  return {.id = {},
          .select_received = std::move(received),
          .select_sent = std::move(sent),
          .select_vlans = {},
          .output_port = port,
          .output_vlan = {}};
}

MirrorConfig all_to(PortNo port) {
  MirrorConfig config = to_port(port, {});
  config.select_all = true;
  return config;
}

TEST_F(MirrorTest, CopiesWhatComesInAsItCame) {
  set({to_port(3, {1})});
  sw.send(1, {frame()});
  sw.send(2, {frame()});
  EXPECT_THAT(sw.take(3), ElementsAre(frame()));
  EXPECT_THAT(sw.take(2), ElementsAre(rewritten(frame())));
  EXPECT_THAT(sw.take(1), ElementsAre(frame()));
  EXPECT_EQ(stats().packets, 1u);
  EXPECT_EQ(stats().bytes, 60u);
}

TEST_F(MirrorTest, CopiesWhatLeavesAsItLeaves) {
  set({to_port(3, {}, {2})});
  sw.send(1, std::vector<Bytes>(40, frame()));
  EXPECT_THAT(sw.take(2), SizeIs(40));
  EXPECT_EQ(sw.take(3), std::vector<Bytes>(40, rewritten(frame())));
  set({});
  sw.send(1, {frame()});
  EXPECT_THAT(sw.take(3), IsEmpty());
  EXPECT_THAT(sw.take(2), SizeIs(1));
}

TEST_F(MirrorTest, GivesAMirrorOneCopyOfAPacketThatIsSelectedTwice) {
  set({all_to(3)});
  sw.send(1, {frame()});
  sw.send(2, {frame(kUntagged, 7)});
  EXPECT_THAT(sw.take(3), ElementsAre(frame(), frame(kUntagged, 7)));
  EXPECT_EQ(stats().packets, 2u);
}

TEST_F(MirrorTest, MirrorsWithOneOutputShareACopyAndOthersHaveTheirOwn) {
  set({to_port(3, {1}), to_port(3, {}, {2}), to_port(4, {1}), to_port(5, {}, {2})});
  sw.send(1, {frame()});
  EXPECT_THAT(sw.take(3), ElementsAre(frame()));
  EXPECT_THAT(sw.take(4), ElementsAre(frame()));
  EXPECT_THAT(sw.take(5), ElementsAre(rewritten(frame())));
}

TEST_F(MirrorTest, AnOutputPortIsTheMirrorsAlone) {
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 20, make_match({{Field::eth_type, 0x86dd}}),
                                       {ApplyActions{{OutputAction{.port = kPortFlood}}}})));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 20, make_match({{Field::eth_type, 0x0806}}),
                                       {ApplyActions{{OutputAction{.port = 3}}}})));
  set({to_port(3, {2})});
  sw.send(1, {make_frame({.eth_type = 0x86dd}), make_frame({.eth_type = 0x0806})});
  EXPECT_THAT(sw.take(3), IsEmpty());
  EXPECT_THAT(sw.take(4), SizeIs(1));
  EXPECT_EQ(dropped(DropReason::mirror_port), 1u);
  sw.send(3, {frame()});
  EXPECT_EQ(dropped(DropReason::mirror_port), 2u);
  set({});
  sw.send(1, {make_frame({.eth_type = 0x0806})});
  EXPECT_THAT(sw.take(3), SizeIs(1));
}

TEST_F(MirrorTest, SelectsVlansAsThePortHasThem) {
  MirrorConfig config = all_to(3);
  config.select_vlans.emplace().set(10);
  set({config});
  sw.send(1, {frame(10), frame(11), frame()});
  EXPECT_THAT(sw.take(3), ElementsAre(frame(10)));
  sw.take(2);
  sw.lsi.set_port_vlans(1, PortVlans{.mode = PortVlans::Mode::access, .tag = 10});
  sw.send(1, {frame(), frame(11)});
  EXPECT_THAT(sw.take(3), ElementsAre(frame(10))) << "a trunk shows the tag";
  sw.lsi.set_port_vlans(3, PortVlans{.mode = PortVlans::Mode::access, .tag = 10});
  sw.send(1, {frame()});
  EXPECT_THAT(sw.take(3), ElementsAre(frame()));
}

TEST_F(MirrorTest, CutsCopiesShortAndNothingElse) {
  MirrorConfig config = to_port(3, {1});
  config.max_length = 20;
  set({config});
  sw.send(1, {frame(), frame(10)});
  const std::vector<Bytes> copies = sw.take(3);
  ASSERT_THAT(copies, SizeIs(2));
  EXPECT_EQ(copies[0], first_20(frame()));
  EXPECT_EQ(copies[1], first_20(frame(10)));
  EXPECT_THAT(sw.take(2), ElementsAre(SizeIs(60), SizeIs(64)));
  EXPECT_EQ(stats().bytes, 40u);
  config.max_length = 14;
  set({config});
  sw.lsi.set_port_vlans(1, PortVlans{.mode = PortVlans::Mode::access, .tag = 10});
  sw.send(1, {frame()});
  EXPECT_THAT(sw.take(3), ElementsAre(SizeIs(14))) << "the tag counts, too";
  EXPECT_EQ(stats().bytes, 54u) << "a mirror that stays goes on counting";
}

TEST_F(MirrorTest, PutsCopiesIntoAVlanOfAllPortsThatCarryIt) {
  MirrorConfig config = to_port(0, {1});
  config.output_port.reset();
  config.output_vlan = 99;
  set({config});
  sw.lsi.set_port_vlans(4, PortVlans{.mode = PortVlans::Mode::access, .tag = 99});
  sw.lsi.set_port_vlans(5, PortVlans{.mode = PortVlans::Mode::access, .tag = 98});
  sw.send(1, {frame(10)});
  EXPECT_THAT(sw.take(1), IsEmpty()) << "not back to where it came from";
  EXPECT_THAT(sw.take(2), ElementsAre(frame(99), rewritten(frame(10))));
  EXPECT_THAT(sw.take(3), ElementsAre(frame(99)));
  EXPECT_THAT(sw.take(4), ElementsAre(frame()));
  EXPECT_THAT(sw.take(5), IsEmpty());
  sw.send(1, {frame(99)});
  EXPECT_THAT(sw.take(3), IsEmpty()) << "it is in that VLAN already";
  sw.send(1, {make_frame({.dst = {0x01, 0x80, 0xc2, 0, 0, 0x0e}})});
  EXPECT_THAT(sw.take(3), IsEmpty());
}

TEST_F(MirrorTest, FollowsPortsThatComeAndGo) {
  set({all_to(3)});
  ASSERT_TRUE(sw.lsi.remove_port(3));
  sw.send(1, {frame()});
  EXPECT_THAT(sw.take(2), SizeIs(1));
  ASSERT_TRUE(sw.lsi.add_port({.number = 3, .name = "again", .io = &sw.ports[3]}));
  sw.send(1, {frame()});
  EXPECT_THAT(sw.take(3), ElementsAre(frame()));
  sw.lsi.set_link(3, false, 0);
  sw.send(1, {frame()});
  EXPECT_EQ(dropped(DropReason::mirror_undelivered), 1u);
  EXPECT_EQ(stats().packets, 1u);
}

TEST_F(MirrorTest, SeesPacketsOfTheControllerLeave) {
  set({to_port(3, {1}, {2})});
  const auto program = sw.lsi.compile({OutputAction{.port = 2}});
  ASSERT_TRUE(program);
  sw.executor.packet_out(sw.lsi.program(), kPortController, **program, make_packet(frame()));
  sw.executor.flush();
  EXPECT_THAT(sw.take(3), ElementsAre(frame()));
}

TEST_F(MirrorTest, SeesPatchesInBothLsis) {
  CapturePort outer_2;
  CapturePort outer_3;
  Lsi outer({.id = 1, .name = "outer", .clock = {.now = [] { return uint64_t{1}; }, .hz = 1'000}},
            sw.reclaimer);
  ASSERT_TRUE(outer.add_patch({.number = 1, .name = "p1"}));
  ASSERT_TRUE(outer.add_port({.number = 2, .name = "p2", .io = &outer_2}));
  ASSERT_TRUE(outer.add_port({.number = 3, .name = "p3", .io = &outer_3}));
  ASSERT_TRUE(sw.lsi.add_patch({.number = 9, .name = "p9"}));
  ASSERT_TRUE(Lsi::connect(sw.lsi, 9, outer, 1));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 20, make_match({{Field::in_port, 1}}),
                                       {ApplyActions{{OutputAction{.port = 9}}}})));
  ASSERT_TRUE(outer.flow_mod(add_flow(0, 0, {}, {ApplyActions{{OutputAction{.port = 2}}}})));
  set({to_port(3, {}, {9})});
  MirrorConfig config = to_port(3, {1});
  config.id = "outer";
  ASSERT_TRUE(outer.set_mirrors({config}));
  sw.send(1, {frame(), frame(10)});
  EXPECT_THAT(sw.take(3), ElementsAre(frame(), frame(10)));
  EXPECT_THAT(outer_3.sent, ElementsAre(frame(), frame(10)));
  EXPECT_THAT(outer_2.sent, ElementsAre(frame(), frame(10)));
  EXPECT_THAT(PointToPointPaths().find(sw.lsi, 1).reason, "port p9 is mirrored");
}

TEST_F(MirrorTest, KeepsAPairOfPortsOnTheSwitch) {
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 20, make_match({{Field::in_port, 4}}),
                                       {ApplyActions{{OutputAction{.port = 5}}}})));
  EXPECT_EQ(PointToPointPaths().find(sw.lsi, 4).reason, "");
  const std::string sender = sw.lsi.port_desc(4)->name;
  const std::string receiver = sw.lsi.port_desc(5)->name;
  set({to_port(3, {4})});
  EXPECT_EQ(PointToPointPaths().find(sw.lsi, 4).reason, "port " + sender + " is mirrored");
  set({to_port(3, {}, {5})});
  EXPECT_EQ(PointToPointPaths().find(sw.lsi, 4).reason, "port " + receiver + " is mirrored");
  set({to_port(5, {1})});
  EXPECT_EQ(PointToPointPaths().find(sw.lsi, 4).reason,
            "port " + receiver + " is the output of a mirror");
  MirrorConfig config = to_port(0, {1});
  config.output_port.reset();
  config.output_vlan = 99;
  set({config});
  EXPECT_EQ(PointToPointPaths().find(sw.lsi, 4).reason,
            "mirrors' copies go to " + receiver + " too");
  set({to_port(3, {1}, {2})});
  EXPECT_EQ(PointToPointPaths().find(sw.lsi, 4).reason, "");
}

TEST_F(MirrorTest, RefusesMoreThanItHasMarksFor) {
  std::vector<MirrorConfig> many(kMaxMirrors + 1, to_port(3, {1}));
  EXPECT_FALSE(sw.lsi.set_mirrors(many));
}

}  // namespace
}  // namespace headrace::pipeline::test
