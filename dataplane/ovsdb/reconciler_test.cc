// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <tuple>

#include "ovsdb/fake_switch.h"
#include "ovsdb/status_writer.h"

namespace headrace::ovsdb {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

InterfaceRow interface(const std::string& name, const std::string& type, StringMap options = {}) {
  InterfaceRow row;
  row.uuid = "uuid-" + name;
  row.spec.name = name;
  row.spec.type = type;
  row.spec.options = std::move(options);
  return row;
}

InterfaceRow patch(const std::string& name, const std::string& peer) {
  return interface(name, "patch", {{"peer", peer}});
}

std::vector<std::string> keys_of(const StatusRows& rows) {
  std::vector<std::string> keys;
  for (const auto& [key, columns] : rows) {
    keys.push_back(key.first + " " + key.second);
  }
  return keys;
}

class ReconcilerTest : public ::testing::Test {
 protected:
  ReconcilerTest() { desired_.root = "uuid-root"; }

  BridgeRow& add_bridge(const std::string& name) {
    BridgeRow row;
    row.uuid = "uuid-" + name;
    row.config.name = name;
    row.config.datapath_id = 0xab;
    bridges_.push_back(row);
    return bridges_.back();
  }

  /// Applies the desired state and returns the resulting calls.
  std::vector<std::string> apply() {
    fake_.calls.clear();
    desired_.bridges.clear();
    for (const auto& row : bridges_) {
      desired_.bridges.push_back(std::make_shared<const BridgeRow>(row));
    }
    reconciler_.apply(desired_);
    return fake_.calls;
  }

  Json column(const char* table, const std::string& uuid, const char* name) {
    return all_status().at({table, uuid}).at(name);
  }

  StatusRows all_status() {
    reconciler_.forget_told();
    return reconciler_.changed_status();
  }

  FakeSwitch fake_;
  Reconciler reconciler_{fake_};
  std::deque<BridgeRow> bridges_;  // add_bridge() gives references
  Desired desired_;
};

TEST_F(ReconcilerTest, AsksOnceAndThenNothing) {
  auto& bridge = add_bridge("br0");
  bridge.interfaces = {interface("p1", "dpdk")};
  EXPECT_THAT(apply(), ElementsAre("set_workers", "create_lsi br0", "add_port br0 p1 dpdk 1"));
  EXPECT_THAT(apply(), IsEmpty());
  EXPECT_EQ(column("Interface", "uuid-p1", "ofport"), 1);
  EXPECT_EQ(column("Bridge", "uuid-br0", "datapath_id"), "00000000000000ab");
}

TEST_F(ReconcilerTest, MirrorsGoByNumbersAndFollowTheirPorts) {
  auto& bridge = add_bridge("br0");
  bridge.interfaces = {interface("p1", "dpdk"), interface("p2", "dpdk")};
  MirrorRow mirror{.uuid = "uuid-m"};
  mirror.name = "m";
  mirror.config.id = "uuid-m";
  mirror.received = {"p1"};
  mirror.output = "p2";
  bridge.mirrors = {mirror};
  fake_.failing_ports = {"p2"};
  apply();
  EXPECT_TRUE(fake_.mirrors["br0"].empty());
  EXPECT_EQ(
      column("Bridge", "uuid-br0", "status").dump(),
      R"(["map",[["error","mirror m: port p2 could not be made; see error of its interface"]]])");
  fake_.failing_ports.clear();
  EXPECT_THAT(apply(), ElementsAre("add_port br0 p2 dpdk 2", "set_mirrors br0 1"));
  EXPECT_THAT(fake_.mirrors["br0"].at(0).select_received, ElementsAre(1));
  EXPECT_EQ(fake_.mirrors["br0"].at(0).output_port, 2);
  EXPECT_THAT(apply(), IsEmpty());
  EXPECT_EQ(column("Bridge", "uuid-br0", "status").dump(), R"(["map",[]])");
  EXPECT_EQ(reconciler_.changed_statistics().at({"Mirror", "uuid-m"}).at("statistics").dump(),
            R"(["map",[["tx_bytes",180],["tx_packets",3]]])");
  EXPECT_TRUE(reconciler_.changed_statistics().empty());
  bridge.mirrors.clear();
  EXPECT_THAT(apply(), ElementsAre("set_mirrors br0 0"));
}

TEST_F(ReconcilerTest, LocalHasItsNumberOnBothSides) {
  auto row = interface("br0", "internal");
  row.spec.number = pipeline::kPortLocal;
  add_bridge("br0").interfaces = {row};
  apply();
  EXPECT_EQ(fake_.ports.at("br0").number, 0xfffffffe);
  EXPECT_EQ(column("Interface", "uuid-br0", "ofport"), 65534);
}

TEST_F(ReconcilerTest, NumbersGoToWhoAsksThenToWhoHadThemThenInTurn) {
  auto asks = interface("z", "dpdk");
  asks.requested = 1;
  auto had = interface("y", "dpdk");
  had.last_number = 5;
  auto late = interface("x", "dpdk");
  late.last_number = 1;  // taken by z
  add_bridge("br0").interfaces = {interface("a", "dpdk"), late, had, asks};
  apply();
  EXPECT_EQ(fake_.ports.at("z").number, 1);
  EXPECT_EQ(fake_.ports.at("y").number, 5);
  std::set<uint32_t> numbers;
  for (const auto& [name, spec] : fake_.ports) {
    numbers.insert(spec.number);
  }
  EXPECT_EQ(numbers.size(), 4) << "no number twice";
}

TEST_F(ReconcilerTest, AFreedNumberIsNotGivenOutNext) {
  auto& bridge = add_bridge("br0");
  bridge.interfaces = {interface("p1", "dpdk"), interface("p2", "dpdk")};
  apply();
  bridge.interfaces = {interface("p1", "dpdk"), interface("p3", "dpdk")};
  apply();
  EXPECT_EQ(fake_.ports.at("p3").number, 3);
}

TEST_F(ReconcilerTest, ANumberThatIsTakenIsSaidSoAndGivenWhenItIsFree) {
  auto first = interface("a", "dpdk");
  first.requested = 7;
  auto second = interface("b", "dpdk");
  second.requested = 7;
  auto& bridge = add_bridge("br0");
  bridge.interfaces = {first, second};
  apply();
  EXPECT_EQ(fake_.ports.at("b").number, 8);
  EXPECT_EQ(column("Interface", "uuid-b", "error"),
            "ofport_request 7 is the number of a; request another one");
  EXPECT_EQ(column("Interface", "uuid-a", "error"), empty_set());
  EXPECT_THAT(apply(), IsEmpty());
  bridge.interfaces = {second};
  EXPECT_THAT(apply(),
              ElementsAre("remove_port br0 a", "remove_port br0 b", "add_port br0 b dpdk 7"));
  EXPECT_EQ(column("Interface", "uuid-b", "error"), empty_set());
}

TEST_F(ReconcilerTest, WhatIsNotServedStandsInTheRowThatAsks) {
  auto row = interface("p", "dpdk");
  row.notes = {"bfd is not supported", "lldp is not supported"};
  auto& bridge = add_bridge("br0");
  bridge.interfaces = {row};
  bridge.ports = {{.uuid = "uuid-port", .name = "p", .notes = {"lacp is not supported"}}};
  bridge.notes = {"stp_enable is not supported"};
  desired_.notes = {"other_config:x is not supported"};
  apply();
  EXPECT_EQ(column("Interface", "uuid-p", "error"), "bfd is not supported; lldp is not supported");
  EXPECT_EQ(column("Interface", "uuid-p", "ofport"), 1);
  EXPECT_EQ(column("Port", "uuid-port", "status"),
            to_map(StringMap{{"error", "lacp is not supported"}}));
  EXPECT_EQ(column("Bridge", "uuid-br0", "status"),
            to_map(StringMap{{"error", "stp_enable is not supported"},
                             {"switch_error", "other_config:x is not supported"}}));
  bridge.interfaces[0].notes.clear();
  bridge.ports[0].notes.clear();
  bridge.notes.clear();
  desired_.notes.clear();
  EXPECT_THAT(apply(), IsEmpty());
  EXPECT_EQ(column("Interface", "uuid-p", "error"), empty_set());
  EXPECT_EQ(column("Port", "uuid-port", "status"), to_map(StringMap{}));
  EXPECT_EQ(column("Bridge", "uuid-br0", "status"), to_map(StringMap{}));
}

TEST_F(ReconcilerTest, AFailureStaysWithItsPortAndIsTriedAgain) {
  auto& bridge = add_bridge("br0");
  bridge.interfaces = {interface("bad", "dpdk"), interface("good", "dpdk")};
  fake_.failing_ports = {"bad"};
  apply();
  EXPECT_EQ(column("Interface", "uuid-bad", "ofport"), -1);
  EXPECT_EQ(column("Interface", "uuid-bad", "error"), "bad: no such device");
  EXPECT_EQ(column("Interface", "uuid-bad", "link_state"), empty_set());
  EXPECT_GT(column("Interface", "uuid-good", "ofport"), 0);
  EXPECT_THAT(apply(), ElementsAre("add_port br0 bad dpdk 2"));
  EXPECT_THAT(apply(), ElementsAre("add_port br0 bad dpdk 2")) << "no number is consumed";
  EXPECT_TRUE(reconciler_.needs_retry());
  fake_.failing_ports.clear();
  apply();
  EXPECT_FALSE(reconciler_.needs_retry());
  EXPECT_GT(column("Interface", "uuid-bad", "ofport"), 0);
  EXPECT_EQ(column("Interface", "uuid-bad", "error"), empty_set());
}

TEST_F(ReconcilerTest, PatchEndsMeetInEitherOrderAndPartWhenOneGoes) {
  add_bridge("br0").interfaces = {patch("a", "b")};
  EXPECT_THAT(apply(), ElementsAre("set_workers", "create_lsi br0", "add_port br0 a patch 1"));
  add_bridge("br1").interfaces = {patch("b", "a")};
  EXPECT_THAT(apply(),
              ElementsAre("create_lsi br1", "add_port br1 b patch 1", "connect_patch br0 a br1 b"));
  bridges_.pop_back();
  EXPECT_THAT(apply(),
              ElementsAre("disconnect_patch br1 b", "remove_port br1 b", "destroy_lsi br1"));
  add_bridge("br1").interfaces = {patch("b", "a")};
  EXPECT_THAT(apply(),
              ElementsAre("create_lsi br1", "add_port br1 b patch 1", "connect_patch br0 a br1 b"));
}

TEST_F(ReconcilerTest, APatchThatPointsElsewhereIsNotJoined) {
  add_bridge("br0").interfaces = {patch("a", "b"), patch("b", "c"), patch("c", "b")};
  const auto calls = apply();
  EXPECT_EQ(calls.back(), "connect_patch br0 b br0 c");
  bridges_[0].interfaces = {patch("a", "b"), patch("b", "a"), patch("c", "b")};
  EXPECT_THAT(apply(), ElementsAre("disconnect_patch br0 b", "update_port br0 b",
                                   "connect_patch br0 a br0 b"));
}

TEST_F(ReconcilerTest, APatchWithoutAPeerOrWithItselfIsAnError) {
  add_bridge("br0").interfaces = {interface("a", "patch"), patch("b", "b")};
  apply();
  EXPECT_EQ(column("Interface", "uuid-a", "error"), "a: patch type requires valid 'peer' argument");
  EXPECT_EQ(column("Interface", "uuid-b", "error"), "b: patch peer must not be self");
  EXPECT_FALSE(reconciler_.needs_retry()) << "only a change of their rows can help";
}

TEST_F(ReconcilerTest, AChangeIsAnUpdateOrANewPortWithTheSameNumber) {
  auto& bridge = add_bridge("br0");
  bridge.interfaces = {interface("p0", "dpdk"), interface("p1", "dpdk")};
  apply();
  bridge.interfaces[1].spec.mtu = 9000;
  EXPECT_THAT(apply(), ElementsAre("update_port br0 p1"));
  fake_.rebuilding_ports = {"p1"};
  bridge.interfaces[1].spec.options = {{"dpdk-devargs", "net_null0"}};
  EXPECT_THAT(apply(),
              ElementsAre("update_port br0 p1", "remove_port br0 p1", "add_port br0 p1 dpdk 2"));
  bridge.interfaces[1].spec.type = "memif";
  EXPECT_THAT(apply(), ElementsAre("remove_port br0 p1", "add_port br0 p1 memif 2"));
  bridge.interfaces[1].requested = 77;
  EXPECT_THAT(apply(), ElementsAre("remove_port br0 p1", "add_port br0 p1 memif 77"));
}

TEST_F(ReconcilerTest, APortThatFailsForAWhileGetsItsNumberBack) {
  auto& bridge = add_bridge("br0");
  bridge.interfaces = {interface("p0", "dpdk"), interface("p1", "dpdk")};
  apply();
  fake_.rebuilding_ports = {"p0"};
  fake_.failing_ports = {"p0"};
  bridge.interfaces[0].spec.options = {{"dpdk-devargs", "nonsense"}};
  bridge.interfaces.push_back(interface("p2", "dpdk"));
  apply();
  EXPECT_EQ(column("Interface", "uuid-p0", "ofport"), -1);
  fake_.failing_ports.clear();
  bridge.interfaces[0].spec.options = {{"dpdk-devargs", "net_null0"}};
  apply();
  EXPECT_EQ(column("Interface", "uuid-p0", "ofport"), 1);
  EXPECT_EQ(column("Interface", "uuid-p2", "ofport"), 3);
}

TEST_F(ReconcilerTest, APortMovesBetweenBridgesInOneStep) {
  add_bridge("br0").interfaces = {interface("p", "dpdk")};
  add_bridge("br1");
  apply();
  bridges_[1].interfaces = std::exchange(bridges_[0].interfaces, {});
  EXPECT_THAT(apply(), ElementsAre("remove_port br0 p", "add_port br1 p dpdk 1"));
}

TEST_F(ReconcilerTest, ABridgeMadeAnewInOneTransactionStartsAfresh) {
  add_bridge("br0").interfaces = {interface("p", "dpdk")};
  apply();
  bridges_[0].uuid = "uuid-other";
  EXPECT_THAT(apply(), ElementsAre("remove_port br0 p", "destroy_lsi br0", "create_lsi br0",
                                   "add_port br0 p dpdk 1"));
}

TEST_F(ReconcilerTest, ControllersAreSetAsAListAndReportedByRow) {
  auto& bridge = add_bridge("br0");
  bridge.controllers = {{.uuid = "uuid-c", .spec = {.target = "tcp:127.0.0.1:6653"}}};
  EXPECT_EQ(apply().back(), "set_controllers br0 1");
  EXPECT_EQ(column("Controller", "uuid-c", "is_connected"), false);
  fake_.connected_targets = {"tcp:127.0.0.1:6653"};
  EXPECT_EQ(column("Controller", "uuid-c", "is_connected"), true);
  EXPECT_EQ(column("Controller", "uuid-c", "role"), "master");
  bridge.controllers.clear();
  EXPECT_THAT(apply(), ElementsAre("set_controllers br0 0"));
}

TEST_F(ReconcilerTest, WritesOnlyWhatChanged) {
  add_bridge("br0").interfaces = {interface("p", "dpdk")};
  apply();
  StatusWriter writer;
  EXPECT_EQ(writer.operations(all_status()).size(), 3);  // root, bridge, interface
  EXPECT_TRUE(writer.operations(all_status()).empty());
  fake_.link_up = false;
  const auto operations = writer.operations(all_status());
  ASSERT_EQ(operations.size(), 1);
  EXPECT_EQ(operations[0]["row"], (Json{{"link_state", "down"}}));
  EXPECT_EQ(operations[0]["table"], "Interface");
  writer.forget();
  EXPECT_EQ(writer.operations(all_status()).size(), 3);
}

TEST_F(ReconcilerTest, TellsOfWhatHasHappenedAlone) {
  add_bridge("br0").interfaces = {interface("p", "dpdk"), patch("a", "b")};
  add_bridge("br1").interfaces = {interface("q", "dpdk")};
  apply();
  std::ignore = reconciler_.changed_status();
  // The patch port has no peer, and whether there is one is another bridge's matter.
  EXPECT_THAT(keys_of(reconciler_.changed_status()),
              ElementsAre("Interface uuid-a", "Open_vSwitch uuid-root"));
  fake_.link_up = false;
  EXPECT_THAT(keys_of(reconciler_.changed_status()),
              ElementsAre("Interface uuid-a", "Interface uuid-p", "Interface uuid-q",
                          "Open_vSwitch uuid-root"));
  EXPECT_EQ(reconciler_.changed_statistics().size(), 3);
  EXPECT_TRUE(reconciler_.changed_statistics().empty());
  desired_.notes = {"other_config:x is not supported"};
  reconciler_.apply(desired_);
  EXPECT_EQ(reconciler_.changed_status().at({"Bridge", "uuid-br1"}).at("status"),
            to_map(StringMap{{"switch_error", "other_config:x is not supported"}}));
}

TEST_F(ReconcilerTest, ABridgeThatIsTheSameObjectIsLeftAloneUnlessSomethingFailed) {
  add_bridge("br0").interfaces = {interface("p", "dpdk")};
  add_bridge("br1").interfaces = {interface("bad", "dpdk")};
  fake_.failing_ports = {"bad"};
  apply();
  std::ignore = reconciler_.changed_status();
  fake_.calls.clear();
  reconciler_.apply(desired_);
  EXPECT_THAT(fake_.calls, ElementsAre("add_port br1 bad dpdk 1"));
  EXPECT_THAT(keys_of(reconciler_.changed_status()),
              ElementsAre("Bridge uuid-br1", "Interface uuid-bad", "Open_vSwitch uuid-root"));
  fake_.failing_ports.clear();
  reconciler_.apply(desired_);
  fake_.calls.clear();
  reconciler_.apply(desired_);
  EXPECT_THAT(fake_.calls, IsEmpty());
}

TEST_F(ReconcilerTest, RowsThatGoAreNamedOnce) {
  auto& bridge = add_bridge("br0");
  bridge.interfaces = {interface("p", "dpdk")};
  bridge.sources = {{"Bridge", "uuid-br0"}, {"Port", "uuid-port"}, {"Interface", "uuid-p"}};
  apply();
  EXPECT_THAT(reconciler_.take_gone(), IsEmpty());
  bridge.interfaces.clear();
  bridge.sources = {{"Bridge", "uuid-br0"}};
  apply();
  EXPECT_THAT(reconciler_.take_gone(),
              ElementsAre(RowKey{"Port", "uuid-port"}, RowKey{"Interface", "uuid-p"}));
  bridges_.clear();
  apply();
  EXPECT_THAT(reconciler_.take_gone(), ElementsAre(RowKey{"Bridge", "uuid-br0"}));
  EXPECT_THAT(reconciler_.take_gone(), IsEmpty());
}

}  // namespace
}  // namespace headrace::ovsdb
