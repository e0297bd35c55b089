// SPDX-License-Identifier: Apache-2.0
#include "shm/direct_link.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "shm/test_region.h"

namespace headrace::shm {
namespace {

using test::kBuffers;
using test::SharedRegion;

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
    // An idle sender still answers: it calls tx with no packets.
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
  std::vector<Packet> waiting;  // received from A, not yet accepted by B
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

/// A pair of ports whose VNFs answer only when the test calls answer(), on one thread.
class LinkedPair : public SharedRegion {
 protected:
  static constexpr uint32_t kA = 0;
  static constexpr uint32_t kB = 1;
  static constexpr uint32_t kFill = 64;  ///< empty buffers kept ready for each

  /// One round of a worker for both ports; A's packets are forwarded to B.
  void round() {
    links_.step_abandoned();
    for (uint32_t port : {kA, kB}) {
      ends_.refill(port, kFill);
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
  /// The packets that B has received, by first octets; freed.
  std::vector<uint8_t> got() {
    std::vector<uint8_t> octets;
    std::array<Packet, 32> packets{};
    while (const uint32_t count = vnf_[kB].rx(packets)) {
      for (uint32_t i = 0; i < count; ++i) octets.push_back(*vnf_[kB].data(packets[i]));
      vnf_[kB].free(std::span<const Packet>(packets).first(count));
    }
    return octets;
  }
  /// Runs rounds until the VNF is detached or nothing changes.
  bool detach(uint32_t port) {
    for (int i = 0; i < 8; ++i) {
      if (links_.detach(port)) {
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
  // A round that polls twice: the second poll returns nothing, but the first one's packets are not
  // forwarded yet.
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
  EXPECT_EQ(static_cast<RingHeader*>(region_.from_vnf(kA))->tail.load(), 3u) << "A is not blocked";
  EXPECT_EQ(got(), (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
  round();
  EXPECT_EQ(links_.state(kA), LinkState::off);
}

TEST_F(LinkedPair, WhatADeadSenderSentArrives) {
  round();
  link();
  send(1, 5);
  EXPECT_TRUE(detach(kA));
  for (int i = 0; i < 4; ++i) {
    round();
    answer(kA);
  }
  EXPECT_EQ(got(), (std::vector<uint8_t>{1, 2, 3, 4, 5}));
  links_.want(kA, std::nullopt);
  round();
  EXPECT_EQ(links_.state(kA), LinkState::off);
  // The next VNF is linked like the first.
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
  EXPECT_FALSE(detach(kB)) << "A may still send to it";
  answer(kA);
  EXPECT_TRUE(detach(kB));
  EXPECT_EQ(links_.state(kA), LinkState::off);
  vnf_[kA].free_all();
  EXPECT_TRUE(detach(kA));
  EXPECT_EQ(pool_.size(), kBuffers);
  for (const uint32_t port : {kA, kB}) ASSERT_EQ(vnf_[port].bind(mapping_.octets(), port), 0);
  round();
  link();
  send(7, 2);
  EXPECT_EQ(got(), (std::vector<uint8_t>{7, 8}));
}

TEST_F(LinkedPair, AHungSenderKeepsTheNextReceiverNotOut) {
  round();
  link();
  send(1, 5);
  std::array<Packet, 2> read{};
  ASSERT_EQ(vnf_[kB].rx(read), 2u) << "B dies with two packets, three are in its ring";
  ASSERT_FALSE(links_.detach(kB)) << "A does not answer";
  ends_.reclaim_ports(1 << kB, 1 << kB);
  links_.attach(kB);
  ASSERT_EQ(vnf_[kB].bind(mapping_.octets(), kB), 0);
  send_to(kB, 9, 60);
  round();
  EXPECT_EQ(got(), (std::vector<uint8_t>{3, 4, 5, 9})) << "by both ways, while A hangs";
  send(6, 2);  // A goes on, and sees only then that it is to leave
  round();
  EXPECT_EQ(got(), (std::vector<uint8_t>{6, 7}));
  links_.want(kA, std::nullopt);
  for (int i = 0; i < 4; ++i) {
    round();
    answer(kA);
    answer(kB);
  }
  EXPECT_EQ(links_.state(kA), LinkState::off);
  for (const uint32_t port : {kA, kB}) {
    vnf_[port].free_all();
    EXPECT_TRUE(detach(port));
  }
  EXPECT_EQ(pool_.size(), kBuffers);
}

TEST_F(LinkedPair, TheNextReceiverGetsNothingThatItsPredecessorHadReceived) {
  round();
  link();
  send(1, 5);
  std::array<Packet, 4> read{};
  ASSERT_EQ(vnf_[kB].rx(read), 4u);
  // B is killed in tx(): two packets are in the next one's ring, no slot is released yet.
  PacketProducer next(mapping_.octets().data() + vnf_[2].block().direct_at, 64);
  ASSERT_EQ(next.put(std::span<const Packet>(read).first(2)), 2u);
  ASSERT_FALSE(links_.detach(kB)) << "A does not answer";
  const size_t free_before = pool_.size();
  ends_.reclaim_ports(1 << kB, 1 << kB);
  EXPECT_EQ(pool_.size(), free_before + kFill + 2) << "and what B had received and not passed on";
  EXPECT_TRUE(ends_.is_out(read[0].buffer) && ends_.is_out(read[1].buffer));
  links_.attach(kB);
  ASSERT_EQ(vnf_[kB].bind(mapping_.octets(), kB), 0);
  EXPECT_EQ(got(), std::vector<uint8_t>{5});
  links_.drop_all();
  ends_.reclaim_all();
  EXPECT_EQ(pool_.size(), kBuffers);
}

TEST_F(LinkedPair, AnImpossibleHeldPositionTakesNothingBack) {
  round();
  link();
  send(1, 5);
  auto* ring = static_cast<RingHeader*>(region_.direct(kB));
  ring->held.store(1000);
  ASSERT_FALSE(links_.detach(kB));
  ends_.reclaim_ports(1 << kB, 1 << kB);
  links_.attach(kB);
  ASSERT_EQ(vnf_[kB].bind(mapping_.octets(), kB), 0);
  EXPECT_EQ(got(), (std::vector<uint8_t>{1, 2, 3, 4, 5}));
}

TEST_F(LinkedPair, TheNextReceiverOpensALinkThatItsPredecessorDidNot) {
  round();
  send_to(kB, 1, 60);
  links_.want(kA, kB);
  for (int i = 0; i < 4; ++i) {
    round();
    answer(kA);
  }
  ASSERT_EQ(links_.state(kA), LinkState::opening) << "B has not answered";
  send(2, 3);
  ASSERT_FALSE(links_.detach(kB));
  ends_.reclaim_ports(1 << kB, 1 << kB);
  links_.attach(kB);
  ASSERT_EQ(vnf_[kB].bind(mapping_.octets(), kB), 0);
  EXPECT_EQ(got(), (std::vector<uint8_t>{2, 3, 4}));
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
    EXPECT_TRUE(detach(kA)) << answers;
    EXPECT_TRUE(detach(kB)) << answers;
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
  // Ten more, with an absurd number of octets: counted as ten buffers' worth.
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

}  // namespace
}  // namespace headrace::shm
