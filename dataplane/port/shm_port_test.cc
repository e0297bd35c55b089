// SPDX-License-Identifier: Apache-2.0
// Ports of trust groups whose VNFs are hostile: what leaves a group is what was classified.
#include <gtest/gtest.h>
#include <rte_mbuf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "eal/eal.h"
#include "eal/mempool.h"
#include "packet/copy_pool.h"
#include "port/direct_end.h"
#include "port/port.h"
#include "shm/attach_client.h"
#include "shm/vnf_end.h"

namespace headrace::port {
namespace {

using Octets = std::vector<uint8_t>;
using shm::Packet;

constexpr uint32_t kPoolBuffers = 2047;
/// What the rules can have seen of any packet here.
constexpr size_t kHeaders = 128;

std::string unique(const std::string& name) {
  return name + std::to_string(::getpid());
}

/// An attached VNF, which does what the test says.
class Vnf {
 public:
  Vnf(const std::string& socket, const std::string& port) {
    EXPECT_EQ(shm::request_port(socket.c_str(), port.c_str(), attached_), 0);
    memory_ = shm::map_region(attached_.region);
    EXPECT_EQ(end.bind(memory_, attached_.port), 0);
  }
  ~Vnf() {
    end.free_all();
    munmap(memory_.data(), memory_.size());
    close(attached_.region);
    close(attached_.connection);
  }
  Vnf(const Vnf&) = delete;
  Vnf& operator=(const Vnf&) = delete;

  /// Sends a packet that begins at `begin`; its description.
  Packet send(const Octets& octets, uint16_t begin = shm::kHeadroom) {
    Packet packet{};
    EXPECT_EQ(end.alloc({&packet, 1}), 1u);
    packet.begin = begin;
    packet.length = static_cast<uint16_t>(octets.size());
    std::ranges::copy(octets, end.data(packet));
    EXPECT_EQ(end.tx({&packet, 1}), 1u);
    return packet;
  }
  /// Overwrites all of a packet that was sent.
  void overwrite(const Packet& packet) { std::memset(end.data(packet), 0xee, packet.length); }
  /// The octets of one packet; empty if there is none.
  Octets receive() {
    if (end.rx({&last, 1}) == 0) return {};
    const uint8_t* from = end.data(last);
    Octets octets(from, from + last.length);
    end.free(std::span<const Packet>(&last, 1));
    return octets;
  }

  shm::VnfEnd end;
  Packet last{};  ///< that was received

 private:
  shm::Attached attached_{};
  std::span<uint8_t> memory_;
};

class ShmPortTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto eal = eal::Eal::init(
        {.file_prefix = unique("headrace-shm-test-"), .memory_mb = 64, .allow_hugepages = false});
    ASSERT_TRUE(eal) << eal.error().message;
    eal_ = std::move(*eal);
    auto pool = eal::make_mempool({.name = "shm-test", .buffers = kPoolBuffers, .cache = 0});
    ASSERT_TRUE(pool) << pool.error().message;
    pool_ = std::move(*pool);
    packet::set_pool_of_copies(pool_.get());
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(rte_mempool_avail_count(pool_.get()), kPoolBuffers) << "buffers leaked";
    packet::set_pool_of_copies(nullptr);
    pool_.reset();
    eal_.reset();
  }

  static std::unique_ptr<Port> open(const std::string& name, const std::string& group) {
    auto port = open_port({.name = name,
                           .type = "shm",
                           .options = {{"group", group}, {"buffers", "512"}, {"ports", "3"}},
                           .pool = pool_.get(),
                           .rundir = ::testing::TempDir(),
                           .wait_for_workers = [] {}});
    EXPECT_TRUE(port) << port.error().message;
    return port ? std::move(*port) : nullptr;
  }
  static std::string socket(const std::string& group) {
    return ::testing::TempDir() + "/" + group + ".shm";
  }
  /// What comes in by the port, which has one packet.
  static rte_mbuf* receive(Port& port) {
    rte_mbuf* packet = nullptr;
    EXPECT_EQ(port.io().rx(0, {&packet, 1}), 1);
    return packet;
  }
  static void send(Port& port, rte_mbuf* packet) { EXPECT_EQ(port.io().tx(0, {&packet, 1}), 1); }
  static Octets octets_of(const rte_mbuf* packet) {
    Octets octets(packet->pkt_len);
    const void* from = rte_pktmbuf_read(packet, 0, packet->pkt_len, octets.data());
    if (from != octets.data()) std::memcpy(octets.data(), from, octets.size());
    return octets;
  }
  static Octets pattern(size_t size) {
    Octets octets(size);
    for (size_t i = 0; i < size; ++i) octets[i] = static_cast<uint8_t>(i * 7 + 1);
    return octets;
  }
  static bool same_headers(const Octets& a, const Octets& b) {
    const size_t headers = std::min({a.size(), b.size(), kHeaders});
    return a.size() == b.size() && std::equal(a.begin(), a.begin() + headers, b.begin());
  }

  static inline std::unique_ptr<eal::Eal> eal_;
  static inline eal::Mempool pool_;

  std::string near_{unique("near-")};
  std::string far_{unique("far-")};
  std::unique_ptr<Port> a_{open("a", near_)};
  std::unique_ptr<Port> b_{open("b", near_)};
  std::unique_ptr<Port> b2_{open("b2", near_)};
  std::unique_ptr<Port> c_{open("c", far_)};
  Vnf vnf_a_{socket(near_), "a"};
  Vnf vnf_b_{socket(near_), "b"};
  Vnf vnf_c_{socket(far_), "c"};

  void SetUp() override {
    // Gives all VNFs buffers to send from.
    rte_mbuf* none = nullptr;
    for (Port* port : {a_.get(), b_.get(), c_.get()}) {
      ASSERT_EQ(port->io().rx(0, {&none, 1}), 0);
    }
  }
};

TEST_F(ShmPortTest, WhatAVnfChangesAfterSendingDoesNotLeaveItsGroup) {
  for (const size_t size : {60u, 127u, 192u, 193u, 1000u, 1514u}) {
    const Octets sent = pattern(size);
    const Packet described = vnf_a_.send(sent);
    rte_mbuf* packet = receive(*a_);
    vnf_a_.overwrite(described);
    EXPECT_TRUE(same_headers(octets_of(packet), sent)) << size << ": seen by the rules";
    send(*c_, packet);
    EXPECT_TRUE(same_headers(vnf_c_.receive(), sent)) << size << ": left the group";
  }
}

TEST_F(ShmPortTest, WhatAVnfChangesAfterSendingIsRepairedInItsGroup) {
  for (const size_t size : {60u, 1000u}) {
    const Octets sent = pattern(size);
    const Packet described = vnf_a_.send(sent);
    rte_mbuf* packet = receive(*a_);
    vnf_a_.overwrite(described);
    send(*b_, packet);
    EXPECT_TRUE(same_headers(vnf_b_.receive(), sent)) << size;
    EXPECT_EQ(vnf_b_.last.buffer, described.buffer) << "no packet is copied in its group";
    EXPECT_EQ(vnf_b_.last.begin, described.begin);
  }
}

TEST_F(ShmPortTest, CopiesLieInMemoryOfTheSwitch) {
  const Octets sent = pattern(200);
  const Packet described = vnf_a_.send(sent);
  rte_mbuf* packet = receive(*a_);
  rte_mbuf* copy = packet::copy_of(packet);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->pool, pool_.get());
  vnf_a_.overwrite(described);
  EXPECT_EQ(octets_of(copy), sent);
  rte_pktmbuf_free(copy);
  rte_pktmbuf_free(packet);
}

TEST_F(ShmPortTest, HeadersPushedAndPoppedArriveInTheSameBuffer) {
  for (const size_t size : {60u, 1000u}) {
    const Octets sent = pattern(size);
    const Packet described = vnf_a_.send(sent);
    rte_mbuf* packet = receive(*a_);
    Octets expected = pattern(50);
    std::memcpy(rte_pktmbuf_prepend(packet, 50), expected.data(), 50);
    expected.insert(expected.end(), sent.begin(), sent.end());
    send(*b_, packet);
    EXPECT_EQ(vnf_b_.receive(), expected) << size;
    EXPECT_EQ(vnf_b_.last.buffer, described.buffer);

    vnf_a_.send(sent);
    packet = receive(*a_);
    rte_pktmbuf_adj(packet, 20);
    send(*b_, packet);
    EXPECT_EQ(vnf_b_.receive(), Octets(sent.begin() + 20, sent.end())) << size;
  }
}

TEST_F(ShmPortTest, HeadersFindRoomWhereTheBufferHasNone) {
  for (const size_t size : {60u, 1000u}) {
    const Octets sent = pattern(size);
    vnf_a_.send(sent, 0);
    rte_mbuf* packet = receive(*a_);
    Octets expected = pattern(50);
    std::memcpy(rte_pktmbuf_prepend(packet, 50), expected.data(), 50);
    expected.insert(expected.end(), sent.begin(), sent.end());
    send(*b_, packet);
    EXPECT_EQ(vnf_b_.receive(), expected) << size;
  }
}

TEST_F(ShmPortTest, APacketThatEndsWithItsBufferIsReadNoFurther) {
  // The last buffer of a region ends where its memory does.
  std::vector<Packet> sent;
  const auto room = static_cast<uint16_t>(vnf_a_.end.room());
  const Octets octets = pattern(61);
  for (int i = 0; i < 8; ++i) {
    const Packet described = vnf_a_.send(octets, static_cast<uint16_t>(room - octets.size()));
    rte_mbuf* packet = receive(*a_);
    EXPECT_EQ(octets_of(packet), octets);
    EXPECT_EQ(described.begin + described.length, room);
    send(*c_, packet);
    EXPECT_EQ(vnf_c_.receive(), octets);
  }
}

TEST_F(ShmPortTest, AVnfThatHangsDoesNotKeepItsCrashedPeerOut) {
  Vnf& hung = vnf_a_;
  auto crashing = std::make_unique<Vnf>(socket(near_), "b2");
  const auto round = [this] {
    rte_mbuf* none = nullptr;
    a_->io().rx(0, {&none, 1});
    b2_->io().rx(0, {&none, 1});
  };
  a_->direct_end()->send_to(b2_->direct_end());
  for (int i = 0; i < 10 && a_->direct_end()->link_state() != shm::LinkState::on; ++i) {
    round();
    hung.end.rx({});
    crashing->end.rx({});
  }
  ASSERT_EQ(a_->direct_end()->link_state(), shm::LinkState::on);
  crashing.reset();
  shm::Attached attached{};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  int error = -EBUSY;
  while (error == -EBUSY && std::chrono::steady_clock::now() < end) {
    round();
    error = shm::request_port(socket(near_).c_str(), "b2", attached);
  }
  ASSERT_EQ(error, 0) << "the port's last VNF has gone, the one that sends to it hangs";
  close(attached.region);
  close(attached.connection);
}

TEST_F(ShmPortTest, APacketThatIsNotSentCanBeDropped) {
  vnf_a_.send(pattern(1000));
  rte_mbuf* packet = receive(*a_);
  const auto closed = open("d", far_);  // without a VNF
  EXPECT_EQ(closed->io().tx(0, {&packet, 1}), 0);
  EXPECT_EQ(packet->nb_segs, 2);
  rte_pktmbuf_free(packet);
  // Many times as many as there are buffers.
  for (int i = 0; i < 2000; ++i) {
    vnf_a_.send(pattern(300));
    rte_pktmbuf_free(receive(*a_));
  }
}

}  // namespace
}  // namespace headrace::port
