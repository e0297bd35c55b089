// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <initializer_list>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "shm/direct_link.h"
#include "shm/region.h"
#include "shm/switch_end.h"
#include "shm/vnf_end.h"

namespace headrace::shm {
namespace {

constexpr uint32_t kBuffers = 512;

/// A stack of buffers.
class StackPool : public BufferPool {
 public:
  explicit StackPool(uint32_t buffers) : free_(buffers) {
    std::iota(free_.begin(), free_.end(), 0);
  }
  uint32_t take(std::span<uint32_t> buffers) override {
    uint32_t count = 0;
    while (count < buffers.size() && !free_.empty()) {
      buffers[count++] = free_.back();
      free_.pop_back();
    }
    return count;
  }
  void give(std::span<const uint32_t> buffers) override {
    free_.insert(free_.end(), buffers.begin(), buffers.end());
  }
  [[nodiscard]] size_t size() const { return free_.size(); }

 private:
  std::vector<uint32_t> free_;
};

/// A region of four ports and, for each, a VNF's end through a mapping of its own.
class SharedRegion : public testing::Test {
 protected:
  SharedRegion()
      : region_(*Region::create({.name = "test",
                                 .n_ports = 4,
                                 .n_buffers = kBuffers,
                                 .ring_capacity = 64,
                                 .hugepages = false})),
        ends_(region_, pool_),
        mapping_(*Mapping::open(dup(region_.mapping().fd()))) {
    for (uint32_t port = 0; port < vnf_.size(); ++port) vnf_[port].bind(mapping_.octets(), port);
  }

  /// Sends one packet of `length` octets, each of value `mark`, to a VNF.
  void send_to(uint32_t port, uint8_t mark, uint16_t length) {
    std::array<uint32_t, 1> buffer{};
    ASSERT_EQ(pool_.take(buffer), 1u);
    const Packet packet{.buffer = buffer[0], .begin = kHeadroom, .length = length};
    std::fill_n(region_.octets(buffer[0]) + kHeadroom, length, mark);
    ASSERT_EQ(ends_.send(port, {&packet, 1}), 1u);
  }

  Region region_;
  StackPool pool_{kBuffers};
  SwitchEnd ends_;
  Mapping mapping_;
  std::array<VnfEnd, 4> vnf_;
};

TEST_F(SharedRegion, CarriesAPacketThereAndBack) {
  send_to(1, 0x5a, 60);
  std::array<Packet, 8> got{};
  ASSERT_EQ(vnf_[1].rx(got), 1u);
  EXPECT_EQ(got[0].length, 60u);
  EXPECT_EQ(vnf_[1].data(got[0])[59], 0x5a);
  ASSERT_EQ(vnf_[1].tx(std::span(got).first(1)), 1u);
  std::array<Packet, 8> sent{};
  ASSERT_EQ(ends_.receive(1, sent), 1u);
  EXPECT_EQ(sent[0].begin, kHeadroom);
  EXPECT_EQ(sent[0].length, 60u);
  EXPECT_FALSE(ends_.is_out(sent[0].buffer));
}

TEST_F(SharedRegion, GivesAVnfBuffersAndTakesThemBack) {
  ends_.refill(0, 16);
  std::array<Packet, 32> buffers{};
  ASSERT_EQ(vnf_[0].alloc(buffers), 16u);
  EXPECT_EQ(pool_.size(), kBuffers - 16);
  vnf_[0].free(std::span<const Packet>(buffers).first(16));
  ends_.refill(0, 0);
  EXPECT_EQ(pool_.size(), kBuffers);
}

TEST_F(SharedRegion, RefusesNumbersThatAreNotTheVnfs) {
  send_to(1, 1, 60);
  std::array<Packet, 1> got{};
  ASSERT_EQ(vnf_[1].rx(got), 1u);
  // The same twice, one out of range, one that the switch owns.
  std::array<Packet, 4> hostile{};
  hostile.fill(got[0]);
  hostile[2].buffer = kBuffers;
  hostile[3].buffer = (got[0].buffer + 1) % kBuffers;
  ASSERT_EQ(vnf_[1].tx(hostile), 4u);
  std::array<Packet, 8> sent{};
  EXPECT_EQ(ends_.receive(1, sent), 1u);
  EXPECT_EQ(ends_.offences(1).number, 3u);
}

TEST_F(SharedRegion, RefusesPacketsOutsideTheirBuffer) {
  const auto stride = static_cast<uint16_t>(region_.buffer_stride());
  for (const auto& [begin, length] : std::initializer_list<std::pair<uint16_t, uint16_t>>{
           {0, stride + 1}, {65535, 1}, {65535, 65535}, {kHeadroom, stride}, {0, 0}}) {
    send_to(1, 1, 60);
    std::array<Packet, 1> got{};
    ASSERT_EQ(vnf_[1].rx(got), 1u);
    got[0].begin = begin;
    got[0].length = length;
    vnf_[1].tx(got);
    std::array<Packet, 8> sent{};
    EXPECT_EQ(ends_.receive(1, sent), 0u) << begin << " " << length;
  }
  EXPECT_EQ(ends_.offences(1).length, 5u);
  EXPECT_EQ(pool_.size(), kBuffers) << "no buffer leaks";
}

TEST_F(SharedRegion, GivesAVnfNoPacketThatIsOutsideItsBuffer) {
  // A broken VNF of the group writes what the next one reads: as if into its to_vnf.
  for (int i = 0; i < 4; ++i) send_to(1, 1, 60);
  auto* slots = reinterpret_cast<Packet*>(static_cast<RingHeader*>(region_.to_vnf(1)) + 1);
  slots[0].length = 65535;
  slots[1].begin = static_cast<uint16_t>(region_.buffer_stride());
  slots[2].buffer = kBuffers;
  std::array<Packet, 8> got{};
  ASSERT_EQ(vnf_[1].rx(got), 1u);
  EXPECT_EQ(got[0].buffer, slots[3].buffer);
  EXPECT_EQ(vnf_[1].malformed(), 3u);
  vnf_[1].free(std::span<const Packet>(got).first(1));
  ends_.refill(1, 0);
  EXPECT_EQ(pool_.size(), kBuffers - 1) << "only the one whose number was lost is missed";
}

TEST_F(SharedRegion, NamesAndPlacesAreRightAgainAfterAReclaim) {
  region_.name_port(1, "vnf1:0");
  region_.name_port(2, "vnf2:0");
  std::ranges::fill(mapping_.octets().first(sizeof(RegionHeader) + 4 * sizeof(PortBlock)),
                    uint8_t{0xa5});
  uint32_t port = 0;
  EXPECT_NE(VnfEnd::find(mapping_.octets(), "vnf1:0", port), 0);
  ends_.reclaim(1);
  ASSERT_EQ(VnfEnd::find(mapping_.octets(), "vnf1:0", port), 0);
  EXPECT_EQ(port, 1u);
  ASSERT_EQ(VnfEnd::find(mapping_.octets(), "vnf2:0", port), 0) << "the garbage was everybody's";
  EXPECT_EQ(port, 2u);
  EXPECT_EQ(VnfEnd().bind(mapping_.octets(), 1), 0);
  region_.name_port(1, "");
  EXPECT_EQ(VnfEnd::find(mapping_.octets(), "vnf1:0", port), -ENOENT);
}

TEST_F(SharedRegion, StopsReadingARingWithImpossiblePositions) {
  auto* header = static_cast<RingHeader*>(region_.from_vnf(1));
  header->head.store(100'000);
  std::array<Packet, 8> sent{};
  EXPECT_EQ(ends_.receive(1, sent), 0u);
  EXPECT_EQ(ends_.offences(1).ring, 1u);
  header->head.store(1);
  EXPECT_EQ(ends_.receive(1, sent), 0u) << "broken for good, until reclaim()";
}

TEST_F(SharedRegion, TakesBackAllThatADeadVnfHad) {
  ends_.refill(1, 40);
  std::array<Packet, 32> buffers{};
  ASSERT_EQ(vnf_[1].alloc(std::span(buffers).first(20)), 20u);
  for (Packet& packet : buffers) packet.length = 60;
  vnf_[1].tx(std::span(buffers).first(5));                       // waits for the switch
  vnf_[1].free(std::span<const Packet>(buffers).subspan(5, 5));  // returned, not yet seen
  for (int i = 0; i < 7; ++i) send_to(1, 1, 60);                 // waits for the VNF
  ends_.refill(2, 10);                                           // another VNF's are left alone
  ASSERT_EQ(vnf_[2].alloc(std::span(buffers).first(3)), 3u);
  ends_.reclaim(1);
  EXPECT_EQ(pool_.size(), kBuffers - 10);
  // The port works again for the next VNF.
  vnf_[1].bind(mapping_.octets(), 1);
  send_to(1, 7, 60);
  EXPECT_EQ(vnf_[1].rx(buffers), 1u);
}

TEST_F(SharedRegion, RandomGarbageNeverLeaksOrCrashes) {
  std::mt19937 random(7);
  const std::span<uint8_t> all = mapping_.octets();
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 64; ++i) all[random() % all.size()] = static_cast<uint8_t>(random());
    for (uint32_t port = 0; port < 4; ++port) {
      std::array<Packet, 32> sent{};
      const uint32_t count = ends_.receive(port, sent);
      for (uint32_t i = 0; i < count; ++i) {
        ASSERT_LT(sent[i].buffer, kBuffers);
        ASSERT_LE(uint32_t{sent[i].begin} + sent[i].length, region_.buffer_stride());
        pool_.give({&sent[i].buffer, 1});
      }
      ends_.refill(port, 8);
    }
  }
  // With every VNF dead, what none of their marks or rings claims for another comes back in turn.
  for (uint32_t port = 0; port < 4; ++port) {
    std::ranges::fill(region_.held(port), uint8_t{1});
  }
  for (uint32_t port = 0; port < 4; ++port) ends_.reclaim(port);
  EXPECT_EQ(pool_.size(), kBuffers);
}

TEST_F(SharedRegion, FindsBuffersThatADeadVnfWipedOutOfItsMarks) {
  std::array<Packet, 32> buffers{};
  for (int death = 0; death < 2; ++death) {
    ends_.refill(1, 20);
    ends_.refill(2, 10);
    ASSERT_EQ(vnf_[1].alloc(std::span(buffers).first(20)), 20u);
    std::ranges::fill(region_.held(1), uint8_t{0});
    EXPECT_EQ(vnf_[2].alloc(std::span(buffers).first(5)), 5u);
    ends_.reclaim(1);
    vnf_[1].bind(mapping_.octets(), 1);
  }
  // The first twenty are back, the second are missed; port 2's are its own.
  EXPECT_EQ(pool_.size(), kBuffers - 20 - 15);
  ends_.reclaim(1);
  EXPECT_EQ(pool_.size(), kBuffers - 15);
  ends_.reclaim_all();
  EXPECT_EQ(pool_.size(), kBuffers);
}

TEST(RegionConfig, SaysWhatIsWrong) {
  EXPECT_FALSE(Region::create({.name = "x", .n_ports = 0}).has_value());
  EXPECT_FALSE(Region::create({.name = "x", .n_ports = kMaxPorts + 1}).has_value());
  EXPECT_FALSE(Region::create({.name = "x", .ring_capacity = 100}).has_value());
  EXPECT_FALSE(Region::create({.name = "x", .buffer_room = 1 << 20}).has_value());
}

/// A sends numbered packets for ever, B checks that none is missing or out of order, and the switch
/// between them makes and breaks their direct link over and over.
TEST_F(SharedRegion, LosesAndReordersNothingWhileALinkComesAndGoes) {
  constexpr uint32_t kPackets = 300'000;
  constexpr uint32_t kA = 0;
  constexpr uint32_t kB = 1;
  std::atomic<uint32_t> received{0};
  std::atomic<uint32_t> first_wrong{0};
  uint64_t octets = 0;  // the sender's
  const auto length_of = [](uint32_t number) { return static_cast<uint16_t>(60 + number % 1440); };
  std::thread sender([this, length_of, &octets, &received, &first_wrong] {
    std::array<Packet, 16> buffers{};
    for (uint32_t next = 1; next <= kPackets;) {
      const uint32_t want = std::min<uint32_t>(buffers.size(), kPackets - next + 1);
      const uint32_t count = vnf_[kA].alloc(std::span(buffers).first(want));
      for (uint32_t i = 0; i < count; ++i) {
        const uint32_t number = next + i;
        std::memcpy(vnf_[kA].data(buffers[i]), &number, sizeof number);
        buffers[i].length = length_of(number);
        octets += buffers[i].length;
      }
      next += count;
      for (uint32_t sent = 0; sent < count;) {
        if (first_wrong.load() != 0) return;
        sent += vnf_[kA].tx(std::span(buffers).subspan(sent, count - sent));
        if (sent < count) std::this_thread::yield();
      }
      if (count == 0) std::this_thread::yield();
    }
    // An idle sender still answers: it calls tx with nothing to send.
    while (received.load() < kPackets && first_wrong.load() == 0) {
      vnf_[kA].tx({});
      std::this_thread::yield();
    }
  });
  std::thread receiver([this, length_of, &received, &first_wrong] {
    std::array<Packet, 32> packets{};
    uint32_t expected = 1;
    while (expected <= kPackets) {
      const uint32_t count = vnf_[kB].rx(packets);
      for (uint32_t i = 0; i < count; ++i, ++expected) {
        uint32_t number = 0;
        std::memcpy(&number, vnf_[kB].data(packets[i]), sizeof number);
        if (number != expected || packets[i].length != length_of(number)) {
          first_wrong.store(expected);
          return;
        }
      }
      vnf_[kB].free(std::span<const Packet>(packets).first(count));
      received.store(expected - 1);
      if (count == 0) std::this_thread::yield();
    }
  });
  DirectLinks links(ends_);
  DirectTraffic direct;
  std::vector<Packet> waiting;  // received from A, not yet taken by B
  uint64_t through_switch = 0;
  uint64_t octets_through_switch = 0;
  uint32_t times_on = 0;
  for (uint64_t round = 0; received.load() < kPackets && first_wrong.load() == 0; ++round) {
    if (round % 64 == 0) {
      links.want(kA, (round / 64) % 2 == 0 ? std::optional(kB) : std::nullopt);
      const DirectTraffic since = links.take_traffic(kB);
      direct.packets += since.packets;
      direct.octets += since.octets;
    }
    ends_.refill(kA, 64);
    ends_.refill(kB, 0);
    const LinkState before = links.state(kA);
    const bool poll = links.step(kA);
    if (before != links.state(kA) && links.state(kA) == LinkState::on) ++times_on;
    bool drained = false;
    if (poll && waiting.empty()) {
      std::array<Packet, 32> sent{};
      const uint32_t count = ends_.receive(kA, sent);
      for (uint32_t i = 0; i < count; ++i) {
        waiting.push_back(sent[i]);
        octets_through_switch += sent[i].length;
      }
      drained = count == 0;
      through_switch += count;
    }
    const uint32_t handed = ends_.send(kB, waiting);
    waiting.erase(waiting.begin(), waiting.begin() + handed);
    links.polled(kA, drained && waiting.empty() ? 0 : 1, false);
    if (round % 16 == 0) std::this_thread::yield();
  }
  sender.join();
  receiver.join();
  EXPECT_EQ(first_wrong.load(), 0u);
  EXPECT_EQ(received.load(), kPackets);
  EXPECT_GT(times_on, 1u) << "the link was never used: the test shows nothing";
  const DirectTraffic rest = links.take_traffic(kB);
  direct.packets += rest.packets;
  direct.octets += rest.octets;
  EXPECT_EQ(through_switch + direct.packets, kPackets);
  EXPECT_EQ(octets_through_switch + direct.octets, octets);
}

/// A pair of ports whose VNFs answer when told to, on one thread.
class LinkedPair : public SharedRegion {
 protected:
  static constexpr uint32_t kA = 0;
  static constexpr uint32_t kB = 1;

  /// What a worker does in a round, for both ports; what A sent goes on to B.
  void round() {
    links_.step_abandoned();
    for (uint32_t port : {kA, kB}) {
      ends_.refill(port, 64);
      if (!links_.step(port)) continue;
      std::array<Packet, 32> sent{};
      const uint32_t count = ends_.receive(port, sent);
      for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(ends_.send(kB, {&sent[i], 1}), 1u);
      links_.polled(port, count, count == sent.size());
    }
  }
  void answer(uint32_t port) { (void)vnf_[port].rx({}); }
  /// Makes the link from A to B.
  void link() {
    links_.want(kA, kB);
    for (int i = 0; i < 8 && links_.state(kA) != LinkState::on; ++i) {
      round();
      answer(kA);
      answer(kB);
    }
    ASSERT_EQ(links_.state(kA), LinkState::on);
  }
  /// A sends `count` packets whose first octet counts up from `first`.
  void send(uint8_t first, uint32_t count) {
    std::array<Packet, 32> buffers{};
    ASSERT_EQ(vnf_[kA].alloc(std::span(buffers).first(count)), count);
    for (uint32_t i = 0; i < count; ++i) {
      buffers[i].length = 60;
      *vnf_[kA].data(buffers[i]) = static_cast<uint8_t>(first + i);
    }
    ASSERT_EQ(vnf_[kA].tx(std::span(buffers).first(count)), count);
  }
  /// What B has got, by first octets; freed.
  std::vector<uint8_t> got() {
    std::vector<uint8_t> octets;
    std::array<Packet, 32> packets{};
    while (const uint32_t count = vnf_[kB].rx(packets)) {
      for (uint32_t i = 0; i < count; ++i) octets.push_back(*vnf_[kB].data(packets[i]));
      vnf_[kB].free(std::span<const Packet>(packets).first(count));
    }
    return octets;
  }
  /// Until every VNF's part is done or nothing moves.
  bool let_go(uint32_t port) {
    for (int i = 0; i < 8; ++i) {
      if (links_.let_go(port)) {
        ends_.reclaim(port);
        return true;
      }
      round();
    }
    return false;
  }

  DirectLinks links_{ends_};
};

TEST_F(LinkedPair, WaitsForAFullBurstToBeSentOnBeforeTheReceiverReadsDirectly) {
  links_.want(kA, kB);
  links_.step(kA);
  answer(kA);
  // A round that polls twice: the second poll finds nothing, but the first one's is still here.
  links_.polled(kA, 32, true);
  links_.step(kA);
  ASSERT_EQ(links_.state(kA), LinkState::draining);
  links_.polled(kA, 0, false);
  EXPECT_EQ(links_.state(kA), LinkState::draining);
  links_.polled(kA, 0, false);  // the next round's
  EXPECT_EQ(links_.state(kA), LinkState::opening);
}

TEST_F(LinkedPair, AStoppedReceiverHoldsUpNobodyWhenTheLinkIsTakenBack) {
  round();
  link();
  send(1, 3);
  links_.want(kA, std::nullopt);
  round();
  answer(kA);
  send(4, 3);  // by the switch
  for (int i = 0; i < 4; ++i) round();
  EXPECT_EQ(links_.state(kA), LinkState::emptying) << "B has not answered";
  EXPECT_EQ(static_cast<RingHeader*>(region_.from_vnf(kA))->tail.load(), 3u) << "A goes on";
  EXPECT_EQ(got(), (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
  round();
  EXPECT_EQ(links_.state(kA), LinkState::off);
}

TEST_F(LinkedPair, WhatADeadSenderSentArrives) {
  round();
  link();
  send(1, 5);
  EXPECT_TRUE(let_go(kA));
  for (int i = 0; i < 4; ++i) {
    round();
    answer(kA);
  }
  EXPECT_EQ(got(), (std::vector<uint8_t>{1, 2, 3, 4, 5}));
  links_.want(kA, std::nullopt);
  round();
  EXPECT_EQ(links_.state(kA), LinkState::off);
  // The next VNF is linked as the first was.
  ASSERT_EQ(vnf_[kA].bind(mapping_.octets(), kA), 0);
  round();
  link();
  send(9, 1);
  EXPECT_EQ(got(), std::vector<uint8_t>{9});
  const DirectTraffic traffic = links_.take_traffic(kB);
  EXPECT_EQ(traffic.packets, 6u);
  EXPECT_EQ(traffic.octets, 360u);
}

TEST_F(LinkedPair, ADeadReceiversRingIsTakenBackWhenTheSenderHasLeftIt) {
  round();
  link();
  send(1, 5);
  EXPECT_FALSE(let_go(kB)) << "A may still send to it";
  answer(kA);
  EXPECT_TRUE(let_go(kB));
  EXPECT_EQ(links_.state(kA), LinkState::off);
  vnf_[kA].free_all();
  EXPECT_TRUE(let_go(kA));
  EXPECT_EQ(pool_.size(), kBuffers);
  for (const uint32_t port : {kA, kB}) ASSERT_EQ(vnf_[port].bind(mapping_.octets(), port), 0);
  round();
  link();
  send(7, 2);
  EXPECT_EQ(got(), (std::vector<uint8_t>{7, 8}));
}

TEST_F(LinkedPair, LosesNoBufferWhenBothDieInAnyState) {
  round();
  for (int answers = 0; answers < 6; ++answers) {
    links_.want(kA, kB);
    for (int i = 0; i < answers; ++i) {
      round();
      answer(i % 2 == 0 ? kA : kB);
    }
    send(1, 4);
    EXPECT_TRUE(let_go(kA)) << answers;
    EXPECT_TRUE(let_go(kB)) << answers;
    links_.want(kA, std::nullopt);
    round();
    EXPECT_EQ(links_.state(kA), LinkState::off) << answers;
    for (const uint32_t port : {kA, kB}) {
      ends_.reclaim(port);
      ASSERT_EQ(vnf_[port].bind(mapping_.octets(), port), 0);
    }
    EXPECT_EQ(pool_.size(), kBuffers) << answers;
    round();
  }
}

TEST_F(LinkedPair, CountsNothingByImpossiblePositions) {
  round();
  link();
  auto* ring = static_cast<RingHeader*>(region_.direct(kB));
  ring->head.store(1 << 20);
  ring->octets.store(1ull << 60);
  EXPECT_EQ(links_.take_traffic(kB).packets, 0u);
  // Ten more, of any number of octets: as many as fit in ten buffers.
  ring->head.store((1 << 20) + 10);
  ring->tail.store((1 << 20) + 10);
  ring->octets.store((1ull << 60) + (1ull << 40));
  const DirectTraffic traffic = links_.take_traffic(kB);
  EXPECT_EQ(traffic.packets, 10u);
  EXPECT_EQ(traffic.octets, 10 * region_.buffer_stride());
}

TEST_F(LinkedPair, APortReceivesFromOneAtMost) {
  round();
  link();
  links_.want(2, kB);
  EXPECT_TRUE(links_.step(2));
  EXPECT_EQ(links_.state(2), LinkState::off);
}

TEST(Region, FitsAPciBarIfItIsWanted) {
  RegionConfig config{.name = "bar", .n_buffers = 1000, .hugepages = false};
  const size_t usual = Region::create(config)->mapping().octets().size();
  EXPECT_FALSE(std::has_single_bit(usual));
  config.power_of_two = true;
  EXPECT_EQ(Region::create(config)->mapping().octets().size(), std::bit_ceil(usual));
}

}  // namespace
}  // namespace headrace::shm
