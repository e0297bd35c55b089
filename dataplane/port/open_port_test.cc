// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <net/if.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "eal/eal.h"
#include "eal/mempool.h"
#include "port/options.h"
#include "port/port.h"

namespace headrace::port {
namespace {

using pipeline::kBurst;

std::string unique(const std::string& name) {
  return name + std::to_string(::getpid());
}

class PortTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto eal = eal::Eal::init(
        {.file_prefix = unique("headrace-port-test-"), .memory_mb = 128, .allow_hugepages = false});
    ASSERT_TRUE(eal) << eal.error().message;
    eal_ = std::move(*eal);
    auto pool = eal::make_mempool({.name = "port-test", .buffers = 8191, .cache = 0});
    ASSERT_TRUE(pool) << pool.error().message;
    pool_ = std::move(*pool);
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(rte_mempool_avail_count(pool_.get()), 8191u) << "buffers leaked";
    pool_.reset();
    eal_.reset();
  }

  static PortConfig config(std::string name, std::string type, StringMap options = {}) {
    return {.name = std::move(name),
            .type = std::move(type),
            .options = std::move(options),
            .pool = pool_.get(),
            .rundir = ::testing::TempDir(),
            .wait_for_workers = [] {},  // there are none
            .io = &io_,
            .reclaimer = &reclaimer_};
  }

  static std::unique_ptr<Port> open(const PortConfig& config) {
    auto port = open_port(config);
    EXPECT_TRUE(port) << port.error().message;
    return port ? std::move(*port) : nullptr;
  }

  static std::string error_of(const PortConfig& config) {
    const auto port = open_port(config);
    EXPECT_FALSE(port);
    return port ? "" : port.error().message;
  }

  /// Sends frames whose first bytes are 0..count-1, and returns those that `to` received, in order.
  static std::vector<uint8_t> pass(Port& from, Port& to, uint8_t count) {
    std::vector<uint8_t> seen;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    uint8_t next = 0;
    while (seen.size() < count && std::chrono::steady_clock::now() < end) {
      if (next < count) {
        rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get());
        *rte_pktmbuf_mtod(packet, uint8_t*) = next;
        rte_pktmbuf_append(packet, 60);
        if (from.io().tx(0, {&packet, 1}) == 1) {
          ++next;
        } else {
          rte_pktmbuf_free(packet);
        }
      }
      rte_mbuf* burst[kBurst];
      const uint16_t received = to.io().rx(0, burst);
      for (uint16_t i = 0; i < received; ++i) {
        EXPECT_EQ(rte_pktmbuf_pkt_len(burst[i]), 60u);
        seen.push_back(*rte_pktmbuf_mtod(burst[i], uint8_t*));
        rte_pktmbuf_free(burst[i]);
      }
    }
    return seen;
  }

  static std::vector<uint8_t> sequence(uint8_t count) {
    std::vector<uint8_t> numbers(count);
    for (uint8_t i = 0; i < count; ++i) numbers[i] = i;
    return numbers;
  }

  static inline asio::io_context io_{1};
  static inline pipeline::ImmediateReclaimer reclaimer_;
  static inline std::unique_ptr<eal::Eal> eal_;
  static inline eal::Mempool pool_;
};

TEST_F(PortTest, NullDeviceReceivesAndSinks) {
  const auto port = open(config("null", "dpdk", {{"dpdk-devargs", "net_null_a,size=60"}}));
  ASSERT_TRUE(port);
  rte_mbuf* burst[kBurst];
  ASSERT_EQ(port->io().rx(0, burst), kBurst);
  EXPECT_EQ(port->io().tx(0, burst), kBurst);
  const auto statistics = port->statistics();
  EXPECT_EQ(statistics.at("rx_packets"), kBurst);
  EXPECT_EQ(statistics.at("tx_packets"), kBurst);
  EXPECT_EQ(port->status().at("driver_name"), "net_null");
  EXPECT_TRUE(port->link().up);
}

TEST_F(PortTest, PortsComeAndGo) {
  for (int i = 0; i < 50; ++i) {
    const auto port = open(config("again", "dpdk", {{"dpdk-devargs", "net_null_again"}}));
    ASSERT_TRUE(port) << "at " << i;
  }
}

TEST_F(PortTest, OneTransmitQueuePerWorkerWhereTheDeviceHasThem) {
  PortConfig wants = config("queues", "dpdk", {{"dpdk-devargs", "net_null_q"}, {"n_rxq", "2"}});
  wants.tx_queues_wanted = 3;
  const auto port = open(wants);
  ASSERT_TRUE(port);
  EXPECT_EQ(port->n_rx_queues(), 2);
  EXPECT_EQ(port->n_tx_queues(), 3);
}

TEST_F(PortTest, RingLoopsInOrder) {
  const auto port = open(config("ring", "dpdk", {{"dpdk-devargs", "net_ring_loop"}}));
  ASSERT_TRUE(port);
  EXPECT_EQ(pass(*port, *port, 200), sequence(200));
}

TEST_F(PortTest, MemifPassesBothWays) {
  const std::string socket = ::testing::TempDir() + unique("memif-");
  const auto server = open(config("m/1", "memif", {{"socket", socket}, {"role", "server"}}));
  const auto client = open(config("m_1", "memif", {{"socket", socket}, {"role", "client"}}));
  ASSERT_TRUE(server && client);
  for (int i = 0; i < 500 && !(client->link().up && server->link().up); ++i) {
    io_.restart();
    io_.run_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(client->link().up) << "the client must reach the server";
  EXPECT_EQ(pass(*client, *server, 200), sequence(200));
  EXPECT_EQ(pass(*server, *client, 200), sequence(200));
}

TEST_F(PortTest, MemifClientWaitsForItsServer) {
  const std::string socket = ::testing::TempDir() + unique("memif-wait-");
  const auto client = open(config("client", "memif", {{"socket", socket}, {"role", "client"}}));
  ASSERT_TRUE(client);
  EXPECT_FALSE(client->link().up);
  rte_mbuf* burst[kBurst];
  EXPECT_EQ(client->io().rx(0, burst), 0);
  rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get());
  EXPECT_EQ(client->io().tx(0, {&packet, 1}), 0);
  rte_pktmbuf_free(packet);
}

TEST_F(PortTest, VhostUserClientWaitsForItsPeer) {
  const std::string socket = ::testing::TempDir() + unique("vhost-");
  const auto vhost = open(config("vhost", "dpdkvhostuserclient", {{"vhost-server-path", socket}}));
  ASSERT_TRUE(vhost);
  EXPECT_FALSE(vhost->link().up);
  EXPECT_EQ(vhost->status().at("mode"), "client");
  rte_mbuf* burst[kBurst];
  EXPECT_EQ(vhost->io().rx(0, burst), 0);
  EXPECT_FALSE(std::filesystem::exists(socket)) << "it is the peer who listens";
}

TEST_F(PortTest, VhostUserServerListens) {
  const auto vhost = open(config(unique("vhost-"), "dpdkvhostuser"));
  ASSERT_TRUE(vhost);
  EXPECT_TRUE(std::filesystem::exists(::testing::TempDir() + unique("vhost-")));
}

TEST_F(PortTest, AVhostUserSocketBelongsToOnePort) {
  const std::string name = unique("vhost-");
  const auto server = open(config(name, "dpdkvhostuser"));
  ASSERT_TRUE(server);
  EXPECT_NE(error_of(config("other", "dpdkvhostuserclient",
                            {{"vhost-server-path", ::testing::TempDir() + "/" + name}}))
                .find("that of port " + name),
            std::string::npos);
}

TEST_F(PortTest, ManyVhostUserPortsNeedNoDevices) {
  std::vector<std::unique_ptr<Port>> ports;
  const uint16_t devices = rte_eth_dev_count_avail();
  for (int i = 0; i < 2 * RTE_MAX_ETHPORTS; ++i) {
    ports.push_back(open(config(unique("many-") + "-" + std::to_string(i), "dpdkvhostuser")));
    ASSERT_TRUE(ports.back());
  }
  EXPECT_EQ(rte_eth_dev_count_avail(), devices);
}

TEST_F(PortTest, TapIsAKernelInterface) {
  const std::string name = "hr" + std::to_string(::getpid());
  {
    PortConfig wants = config(name, "internal");
    wants.mac = MacAddress{0x02, 0, 0, 0, 0, 0x17};
    wants.mtu = 1400;
    const auto tap = open(wants);
    ASSERT_TRUE(tap);
    EXPECT_EQ(tap->ifindex(), ::if_nametoindex(name.c_str()));
    EXPECT_EQ(tap->mac(), *wants.mac);
    EXPECT_EQ(tap->mtu(), 1400u);
    EXPECT_NE(error_of(config(name, "tap")).find("already"), std::string::npos);
  }
  EXPECT_EQ(::if_nametoindex(name.c_str()), 0u) << "it must be gone with its port";
}

TEST_F(PortTest, ErrorsNameWhatIsWrong) {
  EXPECT_NE(error_of(config("x", "gre0")).find("no type of port"), std::string::npos);
  EXPECT_NE(error_of(config("x", "dpdk")).find("dpdk-devargs"), std::string::npos);
  EXPECT_NE(
      error_of(config("x", "dpdk", {{"dpdk-devargs", "net_nonsense0"}})).find("net_nonsense0"),
      std::string::npos);
  EXPECT_NE(error_of(config("x", "memif")).find("options:socket"), std::string::npos);
  EXPECT_NE(error_of(config("x", "memif", {{"socket", "/tmp/s"}, {"role", "master"}}))
                .find("server or client"),
            std::string::npos);
  EXPECT_NE(error_of(config("x", "memif", {{"socket", "a,b"}})).find("comma"), std::string::npos);
  EXPECT_NE(error_of(config("x", "memif", {{"socket", "/tmp/s"}, {"zero-copy", "true"}}))
                .find("no options:zero-copy"),
            std::string::npos);
  EXPECT_NE(error_of(config("x", "dpdk", {{"dpdk-devargs", "net_null_x"}, {"n_rxqs", "2"}}))
                .find("no options:n_rxqs"),
            std::string::npos);
  EXPECT_NE(error_of(config("x", "dpdk", {{"dpdk-devargs", "net_null_x"}, {"n_rxq", "0"}}))
                .find("from 1"),
            std::string::npos);
  EXPECT_NE(error_of(config("no-such-if", "system")).find("no kernel interface"),
            std::string::npos);
}

TEST_F(PortTest, ADeviceBelongsToOnePort) {
  const auto first = open(config("a", "dpdk", {{"dpdk-devargs", "net_null_one"}}));
  ASSERT_TRUE(first);
  EXPECT_NE(error_of(config("b", "dpdk", {{"dpdk-devargs", "net_null_one"}})).find("in use"),
            std::string::npos);
}

TEST(VdevName, KeepsDifferentNamesDifferent) {
  EXPECT_EQ(vdev_name("net_memif", "vnf1-0"), "net_memif_vnf1-0");
  EXPECT_NE(vdev_name("net_memif", "a/b"), vdev_name("net_memif", "a_b"));
  EXPECT_NE(vdev_name("net_memif", "a/b"), vdev_name("net_memif", "a:b"));
  const std::string longest(200, 'x');
  EXPECT_LT(vdev_name("net_memif", longest).size(), 64u);
  EXPECT_NE(vdev_name("net_memif", longest), vdev_name("net_memif", longest + "y"));
}

}  // namespace
}  // namespace headrace::port
