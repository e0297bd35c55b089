// SPDX-License-Identifier: Apache-2.0
// The client with a real ovsdb-server and the stock schema, configured by the real ovs-vsctl.
#include "ovsdb/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "ovsdb/fake_switch.h"
#include "ovsdb/ovsdb_server_fixture.h"

namespace headrace::ovsdb {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// A client in a separate thread.
class RunningClient {
 public:
  explicit RunningClient(const std::string& target, Backoff retry = Client::kRetry)
      : client_(context_, target, fake_, nullptr, retry) {
    asio::post(context_, [this] { ASSERT_TRUE(client_.start()); });
    thread_ = std::thread([this] { context_.run(); });
  }
  ~RunningClient() {
    asio::post(context_, [this] {
      client_.stop();
      work_.reset();
    });
    thread_.join();
  }
  RunningClient(const RunningClient&) = delete;
  RunningClient& operator=(const RunningClient&) = delete;

  /// Runs `function(fake, client)` in the client's thread and returns its result.
  template <typename Function>
  auto with(Function function) {
    std::promise<decltype(function(fake_, client_))> promise;
    asio::post(context_, [&] { promise.set_value(function(fake_, client_)); });
    return promise.get_future().get();
  }

 private:
  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_ =
      asio::make_work_guard(context_);
  FakeSwitch fake_;
  Client client_;
  std::thread thread_;
};

template <typename Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

class ClientTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(server_.is_up()) << "openvswitch-switch is needed"; }

  /// ovs-vsctl must succeed; returns what it printed, without the last newline.
  std::string vsctl(std::vector<std::string> arguments) {
    auto result = server_.vsctl(std::move(arguments));
    EXPECT_EQ(result.exit_status, 0) << result.output;
    if (result.output.ends_with('\n')) {
      result.output.pop_back();
    }
    return result.output;
  }

  OvsdbServer server_;
};

TEST_F(ClientTest, AddBrReturnsOnceTheSwitchHasIt) {
  RunningClient client(server_.target());
  EXPECT_EQ(vsctl({"add-br", "br0"}), "");
  EXPECT_TRUE(client.with([](auto& fake, auto&) { return fake.lsis.contains("br0"); }));
  EXPECT_EQ(vsctl({"get", "Interface", "br0", "ofport"}), "65534");
  EXPECT_EQ(vsctl({"get", "Interface", "br0", "type"}), "internal");
  EXPECT_EQ(vsctl({"get", "Open_vSwitch", ".", "dpdk_initialized"}), "true");
  EXPECT_THAT(vsctl({"show"}), HasSubstr("ovs_version: \"headrace test\""));
  vsctl({"del-br", "br0"});
  EXPECT_FALSE(client.with([](auto& fake, auto&) { return fake.lsis.contains("br0"); }));
}

TEST_F(ClientTest, BridgeColumnsReachTheSwitch) {
  RunningClient client(server_.target());
  vsctl({"add-br", "br0", "--", "set", "Bridge", "br0", "fail_mode=secure", "protocols=OpenFlow13",
         "other_config:datapath-id=00000000000000ab", "other_config:dp-desc=edge"});
  const auto config = client.with([](auto& fake, auto&) { return fake.lsis.at("br0"); });
  EXPECT_EQ(config.fail_mode, FailMode::secure);
  EXPECT_EQ(config.datapath_id, 0xab);
  EXPECT_EQ(config.description, "edge");
  EXPECT_EQ(vsctl({"get", "Bridge", "br0", "datapath_id"}), "\"00000000000000ab\"");
  vsctl({"remove", "Bridge", "br0", "other_config", "datapath-id"});
  const auto without = client.with([](auto& fake, auto&) { return fake.lsis.at("br0"); });
  EXPECT_NE(without.datapath_id, 0xab);
  EXPECT_EQ(without.datapath_id >> 40 & 3, 2) << "a locally administered unicast address";
}

TEST_F(ClientTest, PortsGetNumbersStatusAndStatistics) {
  RunningClient client(server_.target());
  vsctl({"add-br", "br0"});
  vsctl({"add-port", "br0", "p1", "--", "set", "Interface", "p1", "type=dpdk",
         "options:dpdk-devargs=net_null0", "ofport_request=10", "mtu_request=9000",
         "other_config:pmd-rxq-affinity=\"0:1\""});
  EXPECT_EQ(vsctl({"get", "Interface", "p1", "ofport"}), "10");
  EXPECT_EQ(vsctl({"get", "Interface", "p1", "mtu"}), "9000");
  EXPECT_EQ(vsctl({"get", "Interface", "p1", "link_state"}), "up");
  EXPECT_EQ(vsctl({"get", "Interface", "p1", "mac_in_use"}), "\"02:00:00:00:00:01\"");
  EXPECT_EQ(vsctl({"get", "Interface", "p1", "status:driver_name"}), "net_fake");
  const auto spec = client.with([](auto& fake, auto&) { return fake.ports.at("p1"); });
  EXPECT_EQ(spec.options, (StringMap{{"dpdk-devargs", "net_null0"}}));
  EXPECT_EQ(spec.rxq_affinity, (std::map<uint16_t, unsigned>{{0, 1}}));
  EXPECT_TRUE(eventually([&] {
    return vsctl({"get", "Interface", "p1", "statistics"}) == "{rx_packets=7, tx_packets=9}";
  }));
  vsctl({"del-port", "br0", "p1"});
  EXPECT_FALSE(client.with([](auto& fake, auto&) { return fake.ports.contains("p1"); }));
}

TEST_F(ClientTest, AFailingPortTellsOvsVsctlAndSparesTheOthers) {
  RunningClient client(server_.target(), {std::chrono::hours(1), std::chrono::hours(1)});
  client.with([](auto& fake, auto&) { return fake.failing_ports.insert("bad").second; });
  vsctl({"add-br", "br0"});
  const auto result = server_.vsctl({"add-port", "br0", "bad", "--", "add-port", "br0", "good",
                                     "--", "set", "Interface", "bad", "type=dpdk"});
  EXPECT_THAT(result.output,
              HasSubstr("Error detected while setting up 'bad': bad: no such device"));
  EXPECT_EQ(vsctl({"get", "Interface", "bad", "ofport"}), "-1");
  EXPECT_EQ(vsctl({"get", "Interface", "good", "error"}), "[]");
  EXPECT_EQ(client.with([](auto& fake, auto&) {
    return std::count(fake.calls.begin(), fake.calls.end(), "add_port br0 bad dpdk 1");
  }),
            1)
      << "writing the error back is not a change of the row";
}

TEST_F(ClientTest, AFailingPortIsTriedAgainWithoutAChangeOfTheDatabase) {
  RunningClient client(server_.target(),
                       {std::chrono::milliseconds(5), std::chrono::milliseconds(20)});
  client.with([](auto& fake, auto&) { return fake.failing_ports.insert("bad").second; });
  vsctl({"add-br", "br0"});
  server_.vsctl({"add-port", "br0", "bad", "--", "set", "Interface", "bad", "type=dpdk"});
  const auto tries = [&] {
    return client.with([](auto& fake, auto&) {
      return std::count(fake.calls.begin(), fake.calls.end(), "add_port br0 bad dpdk 1");
    });
  };
  EXPECT_TRUE(eventually([&] { return tries() >= 5; }));
  EXPECT_EQ(vsctl({"get", "Interface", "bad", "error"}), "\"bad: no such device\"");
  EXPECT_EQ(vsctl({"get", "Interface", "bad", "ofport"}), "-1");
  client.with([](auto& fake, auto&) { return fake.failing_ports.erase("bad"); });
  EXPECT_TRUE(eventually([&] { return vsctl({"get", "Interface", "bad", "ofport"}) == "1"; }));
  EXPECT_EQ(vsctl({"get", "Interface", "bad", "error"}), "[]");
  // After a success the back-off restarts from its first delay.
  client.with([](auto& fake, auto&) { return fake.failing_ports.insert("worse").second; });
  server_.vsctl({"add-port", "br0", "worse", "--", "set", "Interface", "worse", "type=dpdk"});
  client.with([](auto& fake, auto&) { return fake.failing_ports.erase("worse"); });
  EXPECT_TRUE(eventually([&] { return vsctl({"get", "Interface", "worse", "ofport"}) == "2"; }));
}

TEST_F(ClientTest, ABondIsRefusedInWords) {
  RunningClient client(server_.target());
  vsctl({"add-br", "br0"});
  const auto result = server_.vsctl({"add-bond", "br0", "bond0", "e1", "e2"});
  EXPECT_THAT(result.output, HasSubstr("bonds are not supported"));
  EXPECT_FALSE(client.with([](auto& fake, auto&) { return fake.ports.contains("e1"); }));
}

TEST_F(ClientTest, ControllersAndWorkersFollowTheirColumns) {
  RunningClient client(server_.target());
  vsctl({"add-br", "br0"});
  vsctl({"set-controller", "br0", "tcp:127.0.0.1:6653", "ptcp:6654"});
  EXPECT_EQ(client.with([](auto& fake, auto&) { return fake.controllers.at("br0").size(); }), 2);
  EXPECT_THAT(vsctl({"get-controller", "br0"}), HasSubstr("ptcp:6654"));
  client.with([](auto& fake, auto& session) {
    fake.connected_targets = {"tcp:127.0.0.1:6653"};
    session.refresh_soon();
    return 0;
  });
  EXPECT_TRUE(
      eventually([&] { return vsctl({"show"}).find("is_connected: true") != std::string::npos; }));
  vsctl({"del-controller", "br0"});
  EXPECT_EQ(client.with([](auto& fake, auto&) { return fake.controllers.at("br0").size(); }), 0);
  vsctl({"set", "Open_vSwitch", ".", "other_config:pmd-cpu-mask=0x3",
         "other_config:pmd-maxsleep=50"});
  EXPECT_EQ(client.with([](auto& fake, auto&) { return fake.workers; }),
            (WorkerConfig{.cpus = std::vector<unsigned>{0, 1}, .max_sleep_us = 50}));
  vsctl({"set", "Open_vSwitch", ".", "other_config:pmd-rxq-assign=group",
         "other_config:pmd-auto-lb=true", "other_config:pmd-auto-lb-rebal-interval=0",
         "other_config:pmd-auto-lb-load-threshold=70",
         "other_config:pmd-auto-lb-improvement-threshold=101"});
  EXPECT_EQ(client.with([](auto& fake, auto&) { return fake.workers; }),
            (WorkerConfig{.cpus = std::vector<unsigned>{0, 1},
                          .max_sleep_us = 50,
                          .rxq_assign = "group",
                          .auto_lb = true,
                          .auto_lb_interval_minutes = 1,
                          .auto_lb_load_threshold = 70,
                          .auto_lb_improvement_threshold = 25}));
}

TEST_F(ClientTest, PatchPortsPairAcrossBridges) {
  RunningClient client(server_.target());
  vsctl({"add-br", "br0", "--", "add-br", "br1"});
  vsctl({"add-port", "br0", "a", "--", "set", "Interface", "a", "type=patch", "options:peer=b"});
  vsctl({"add-port", "br1", "b", "--", "set", "Interface", "b", "type=patch", "options:peer=a"});
  EXPECT_THAT(client.with([](auto& fake, auto&) { return fake.calls; }),
              Contains("connect_patch br0 a br1 b"));
}

TEST_F(ClientTest, SurvivesTheServerAndKeepsThePorts) {
  RunningClient client(server_.target());
  vsctl({"add-br", "br0", "--", "add-port", "br0", "p1"});
  client.with([](auto& fake, auto&) {
    fake.calls.clear();
    return 0;
  });
  server_.restart();
  EXPECT_TRUE(eventually(
      [&] { return client.with([](auto&, auto& session) { return session.is_active(); }); }));
  vsctl({"add-port", "br0", "p2"});
  const auto calls = client.with([](auto& fake, auto&) { return fake.calls; });
  EXPECT_THAT(calls, ::testing::ElementsAre("add_port br0 p2 system 2"));
}

TEST_F(ClientTest, NumbersSurviveARestartOfTheSwitch) {
  {
    RunningClient client(server_.target());
    vsctl({"add-br", "br0", "--", "add-port", "br0", "p1", "--", "add-port", "br0", "p2"});
    vsctl({"del-port", "br0", "p1"});
  }
  RunningClient client(server_.target());
  vsctl({"add-port", "br0", "a-new-one"});
  EXPECT_EQ(vsctl({"get", "Interface", "p2", "ofport"}), "2");
  EXPECT_EQ(vsctl({"get", "Interface", "a-new-one", "ofport"}), "3");
}

TEST_F(ClientTest, ASecondSwitchWaitsForTheLock) {
  auto first = std::make_unique<RunningClient>(server_.target());
  vsctl({"add-br", "br0"});
  RunningClient second(server_.target());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(second.with([](auto&, auto& session) { return session.is_active(); }));
  first.reset();
  EXPECT_TRUE(eventually(
      [&] { return second.with([](auto& fake, auto&) { return fake.lsis.contains("br0"); }); }));
}

TEST(ClientTarget, MalformedIsRefusedAtOnce) {
  asio::io_context context;
  FakeSwitch fake;
  for (const char* target :
       {"", "db.sock", "unix:", "tcp:1.2.3.4", "tcp:host:6640", "ssl:1.2.3.4"}) {
    EXPECT_FALSE(Client(context, target, fake).start()) << target;
  }
}

}  // namespace
}  // namespace headrace::ovsdb
