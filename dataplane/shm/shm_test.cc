// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <initializer_list>
#include <random>
#include <vector>

#include "shm/test_region.h"

namespace headrace::shm {
namespace {

using test::kBuffers;
using test::SharedRegion;

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
  EXPECT_EQ(ends_.offences(1).number.read(), 3u);
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
  EXPECT_EQ(ends_.offences(1).length.read(), 5u);
  EXPECT_EQ(pool_.size(), kBuffers) << "no buffer leaks";
}

TEST_F(SharedRegion, GivesAVnfNoPacketThatIsOutsideItsBuffer) {
  // A faulty VNF of the group writes what the next one reads: simulated by writing to its to_vnf.
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
  EXPECT_EQ(pool_.size(), kBuffers - 1) << "only the buffer whose number was lost is missing";
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
  ASSERT_EQ(VnfEnd::find(mapping_.octets(), "vnf2:0", port), 0)
      << "the overwritten name was visible to all VNFs";
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
  EXPECT_EQ(ends_.offences(1).ring.read(), 1u);
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
  ends_.refill(2, 10);                                           // another VNF's are not reclaimed
  ASSERT_EQ(vnf_[2].alloc(std::span(buffers).first(3)), 3u);
  ends_.reclaim(1);
  EXPECT_EQ(pool_.size(), kBuffers - 10);
  // The port works again for the next VNF.
  vnf_[1].bind(mapping_.octets(), 1);
  send_to(1, 7, 60);
  EXPECT_EQ(vnf_[1].rx(buffers), 1u);
}

/// What a VNF does with eight packets that it received.
struct Way {
  const char* what;
  uint32_t sent;  ///< packets that the switch then gets from it
  void (*pass)(VnfEnd& end, std::span<Packet> packets);
};
constexpr Way kWays[] = {
    {"all in order", 8, [](VnfEnd& end, std::span<Packet> p) { end.tx(p); }},
    {"some sent, some freed", 3,
     [](VnfEnd& end, std::span<Packet> p) {
       end.tx(p.first(3));
       end.free(std::span<const Packet>(p).subspan(3, 2));
     }},
    {"reversed", 8,
     [](VnfEnd& end, std::span<Packet> p) {
       std::ranges::reverse(p);
       end.tx(p);
     }},
    {"some skipped", 4, [](VnfEnd& end, std::span<Packet> p) { end.tx(p.subspan(4)); }},
    {"kept beyond the next reception", 4,
     [](VnfEnd& end, std::span<Packet> p) {
       std::array<Packet, 8> more{};
       end.rx(more);
       end.tx(p.first(4));
     }},
    {"another packet in front", 3,
     [](VnfEnd& end, std::span<Packet> p) {
       std::array<Packet, 3> mixed{};
       end.alloc(std::span(mixed).first(1));
       mixed[0].length = 60;
       mixed[1] = p[0];
       mixed[2] = p[1];
       end.tx(mixed);
     }},
    {"headers added", 8,
     [](VnfEnd& end, std::span<Packet> p) {
       for (Packet& packet : p) packet = {packet.buffer, 64, 124};
       end.tx(p);
     }},
    {"all freed by number", 0,
     [](VnfEnd& end, std::span<Packet> p) {
       for (const Packet& packet : p) end.free(std::span(&packet.buffer, 1));
     }},
};

TEST_F(SharedRegion, OwnsWhatItReceivedInWhateverOrderItPassesItOn) {
  // Whatever is left when the VNF dies is taken back, and nothing else.
  for (const Way& way : kWays) {
    SCOPED_TRACE(way.what);
    // Positions at which the slots of a burst are in two pieces, too.
    for (uint32_t before = 0; before < 64; before += 4) {
      for (uint32_t i = 0; i < before; ++i) {
        send_to(1, 0, 60);
        std::array<Packet, 1> one{};
        ASSERT_EQ(vnf_[1].rx(one), 1u);
        vnf_[1].free(std::span<const Packet>(one));
        ends_.refill(1, 0);
      }
      ends_.refill(1, 4);
      for (uint8_t i = 0; i < 8; ++i) send_to(1, i, 60);
      std::array<Packet, 8> got{};
      ASSERT_EQ(vnf_[1].rx(got), 8u);
      way.pass(vnf_[1], got);
      std::array<Packet, 16> taken{};
      ASSERT_EQ(ends_.receive(1, taken), way.sent);
      for (const Packet& packet : std::span(taken).first(way.sent)) {
        EXPECT_TRUE(std::ranges::count(got, packet.buffer, &Packet::buffer) == 1 ||
                    packet.buffer == taken[0].buffer);
        pool_.give({&packet.buffer, 1});
      }
      EXPECT_EQ(ends_.offences(1).number.read(), 0u);
      ends_.reclaim(1);
      ASSERT_EQ(pool_.size(), kBuffers) << "after " << before << " packets";
      ASSERT_EQ(vnf_[1].bind(mapping_.octets(), 1), 0);
    }
  }
}

TEST_F(SharedRegion, LeavesNoMarksIfPacketsArePassedOnInOrder) {
  for (uint8_t i = 0; i < 8; ++i) send_to(1, i, 60);
  std::array<Packet, 8> got{};
  ASSERT_EQ(vnf_[1].rx(got), 8u);
  const std::span<const uint8_t> marks = region_.held(1);
  EXPECT_EQ(std::ranges::count(marks, 0), kBuffers) << "owned by their slots";
  const auto* ring = static_cast<const RingHeader*>(region_.to_vnf(1));
  EXPECT_EQ(ring->tail.load(), 0u);
  ASSERT_EQ(vnf_[1].tx(std::span(got).first(3)), 3u);
  EXPECT_EQ(ring->tail.load(), 3u) << "released with the call that passed them on";
  std::array<Packet, 8> more{};
  EXPECT_EQ(vnf_[1].rx(more), 0u);
  EXPECT_EQ(ring->tail.load(), 8u);
  EXPECT_EQ(std::ranges::count(marks, 1), 5) << "those that it keeps";
}

TEST_F(SharedRegion, ASlotThatIsOverwrittenWhileItsPacketIsOwnedMarksNothingOutside) {
  // A faulty VNF of the group writes to slots that this one has received and not yet passed on.
  for (uint8_t i = 0; i < 4; ++i) send_to(1, i, 60);
  std::array<Packet, 4> got{};
  ASSERT_EQ(vnf_[1].rx(got), 4u);
  auto* slots = reinterpret_cast<Packet*>(static_cast<RingHeader*>(region_.to_vnf(1)) + 1);
  slots[0].buffer = ~0u;
  slots[1].buffer = kBuffers;
  ASSERT_EQ(vnf_[1].tx(got), 4u);
  std::array<Packet, 8> sent{};
  EXPECT_EQ(ends_.receive(1, sent), 4u);
  for (const Packet& packet : std::span(sent).first(4)) pool_.give({&packet.buffer, 1});
  ends_.reclaim(1);
  EXPECT_EQ(pool_.size(), kBuffers);
}

TEST_F(SharedRegion, TakesBackWhatSeveralHadAtOnce) {
  std::array<Packet, 32> buffers{};
  for (uint32_t port = 0; port < 4; ++port) {
    ends_.refill(port, 20);
    ASSERT_EQ(vnf_[port].alloc(std::span(buffers).first(10)), 10u);
    send_to(port, 1, 60);
  }
  // A packet that 0 sent to 3 by its direct ring, whose mark 0 has not yet erased.
  const Packet passed = buffers[0];
  PacketProducer direct(mapping_.octets().data() + vnf_[3].block().direct_at, 64);
  direct.put({&passed, 1});
  region_.held(0)[passed.buffer] = 1;
  ends_.reclaim_ports(0b0111, 0);
  EXPECT_EQ(pool_.size(), kBuffers - 21) << "only what 3 has is missing";
  EXPECT_TRUE(ends_.is_out(passed.buffer));
  ends_.reclaim(3);
  EXPECT_EQ(pool_.size(), kBuffers);
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
  // When every VNF has exited, repeated reclaims recover all buffers.
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
  // The first twenty are reclaimed, the second are missing; port 2 keeps its buffers.
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

TEST(Region, FitsAPciBarIfItIsWanted) {
  RegionConfig config{.name = "bar", .n_buffers = 1000, .hugepages = false};
  const size_t usual = Region::create(config)->mapping().octets().size();
  EXPECT_FALSE(std::has_single_bit(usual));
  config.power_of_two = true;
  EXPECT_EQ(Region::create(config)->mapping().octets().size(), std::bit_ceil(usual));
}

}  // namespace
}  // namespace headrace::shm
