// SPDX-License-Identifier: Apache-2.0
// What the kernel changes in a network namespace is followed by its messages alone.
#include "runtime/switch/kernel_network.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "packet/mac_address.h"

namespace headrace::runtime {
namespace {

port::IpAddress ip(const char* text) {
  return *port::parse_ip(text);
}

class KernelNetworkTest : public testing::Test {
 protected:
  void SetUp() override {
    if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "needs the right to make network namespaces";
    run("ip link set lo up");
    for (const std::string name : {"br-a", "br-b"}) {
      run("ip link add " + name + " type veth peer name far-" + name);
      run("ip link set " + name + " up");
      run("ip link set far-" + name + " up");
    }
    network_ = std::move(*KernelNetwork::make());
  }

  static void run(const std::string& command) {
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  /// Reads messages until the condition holds; false: none made it hold, and no more come.
  template <typename Condition>
  bool follows(Condition&& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      pollfd ready{network_->fd(), POLLIN, 0};
      if (std::chrono::steady_clock::now() > end || poll(&ready, 1, 20'000) <= 0) return false;
      (void)network_->read();
    }
    return true;
  }

  [[nodiscard]] bool has(const char* interface, const char* address) const {
    for (const KernelAddress& each : network_->addresses()) {
      if (each.interface == interface && each.address == ip(address)) return true;
    }
    return false;
  }
  [[nodiscard]] std::string way_to(const char* destination) const {
    const auto hop = network_->route_to(ip(destination));
    if (!hop) return "none";
    return hop->interface + (hop->gateway ? " via " + port::format(*hop->gateway) : "");
  }

  std::unique_ptr<KernelNetwork> network_;
};

TEST_F(KernelNetworkTest, Addresses) {
  EXPECT_FALSE(has("br-a", "10.1.0.1"));
  run("ip addr add 10.1.0.1/24 dev br-a");
  run("ip addr add fd00:1::1/64 dev br-a nodad");
  EXPECT_TRUE(follows([&] { return has("br-a", "10.1.0.1") && has("br-a", "fd00:1::1"); }));
  EXPECT_EQ(way_to("10.1.0.77"), "br-a");
  for (const KernelAddress& each : network_->addresses()) {
    if (each.address != ip("10.1.0.1")) continue;
    EXPECT_TRUE(each.is_near(ip("10.1.0.255")));
    EXPECT_FALSE(each.is_near(ip("10.1.1.0")));
    EXPECT_FALSE(each.is_near(ip("fd00:1::2")));
  }
  run("ip link set br-a name br-c");
  EXPECT_TRUE(follows([&] { return has("br-c", "10.1.0.1"); }));
  // Its routes go with it, of which the kernel says nothing.
  run("ip addr del 10.1.0.1/24 dev br-c");
  EXPECT_TRUE(follows([&] { return !has("br-c", "10.1.0.1") && way_to("10.1.0.77") == "none"; }));
}

TEST_F(KernelNetworkTest, RoutesByLongestPrefixAndMetric) {
  run("ip addr add 10.1.0.1/24 dev br-a");
  run("ip addr add 10.2.0.1/24 dev br-b");
  run("ip route add 10.9.0.0/16 via 10.1.0.2 metric 20");
  EXPECT_TRUE(follows([&] { return way_to("10.9.9.9") == "br-a via 10.1.0.2"; }));
  run("ip route add 10.9.9.0/24 via 10.2.0.2");
  EXPECT_TRUE(follows([&] { return way_to("10.9.9.9") == "br-b via 10.2.0.2"; }));
  EXPECT_EQ(way_to("10.9.8.9"), "br-a via 10.1.0.2");
  run("ip route add 10.9.0.0/16 via 10.2.0.3 metric 10");
  EXPECT_TRUE(follows([&] { return way_to("10.9.8.9") == "br-b via 10.2.0.3"; }));
  run("ip route replace 10.9.9.0/24 via 10.1.0.4");
  EXPECT_TRUE(follows([&] { return way_to("10.9.9.9") == "br-a via 10.1.0.4"; }));
  run("ip route del 10.9.9.0/24");
  EXPECT_TRUE(follows([&] { return way_to("10.9.9.9") == "br-b via 10.2.0.3"; }));
  run("ip link set br-b down");
  EXPECT_TRUE(follows([&] { return way_to("10.9.9.9") == "br-a via 10.1.0.2"; }));
  run("ip -6 route add fd09::/32 dev br-a");
  EXPECT_TRUE(follows([&] { return way_to("fd09::1") == "br-a"; }));
  EXPECT_EQ(way_to("fd0a::1"), "none");
}

TEST_F(KernelNetworkTest, Neighbors) {
  run("ip neigh add 10.1.0.9 lladdr 02:00:00:00:00:09 dev br-a nud permanent");
  const pipeline::MacAddress first{2, 0, 0, 0, 0, 9};
  const pipeline::MacAddress second{2, 0, 0, 0, 0, 10};
  EXPECT_TRUE(follows([&] { return network_->neighbor("br-a", ip("10.1.0.9")) == first; }));
  EXPECT_FALSE(network_->neighbor("br-b", ip("10.1.0.9")));
  run("ip neigh change 10.1.0.9 lladdr 02:00:00:00:00:0a dev br-a nud permanent");
  EXPECT_TRUE(follows([&] { return network_->neighbor("br-a", ip("10.1.0.9")) == second; }));
  run("ip neigh del 10.1.0.9 dev br-a");
  EXPECT_TRUE(follows([&] { return !network_->neighbor("br-a", ip("10.1.0.9")); }));
}

TEST_F(KernelNetworkTest, LinksAreToldApartFromRoutes) {
  bool links = false;
  const auto either = [&] { return (links |= network_->links_changed()); };
  run("ip link set far-br-a down");
  EXPECT_TRUE(follows(either));
  // Messages of the links may still come; at last one is of the neighbor alone.
  bool apart = false;
  for (int i = 0; i < 50 && !apart; ++i) {
    const std::string mac = "02:00:00:00:00:" + std::to_string(10 + i);
    run("ip neigh replace 10.1.0.9 lladdr " + mac + " dev br-b nud permanent");
    const auto told = [&] {
      const auto known = network_->neighbor("br-b", ip("10.1.0.9"));
      return known && packet::format_mac(*known) == mac;
    };
    ASSERT_TRUE(follows(told));
    apart = !network_->links_changed();
  }
  EXPECT_TRUE(apart);
}

TEST_F(KernelNetworkTest, WhatTheSocketCouldNotHoldIsReadAnew) {
  // Some 100 octets and the socket's own share each: more than its buffer.
  run("for i in $(seq 1 30); do for j in $(seq 1 250); do echo route add 10.77.$i.$j/32 dev br-a; "
      "done; done | ip -batch -");
  EXPECT_TRUE(follows([&] { return way_to("10.77.30.250") == "br-a"; }));
  for (const char* each : {"10.77.1.1", "10.77.15.100", "10.77.30.1"}) {
    EXPECT_EQ(way_to(each), "br-a");
  }
}

}  // namespace
}  // namespace headrace::runtime
