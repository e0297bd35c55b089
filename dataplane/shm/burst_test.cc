// SPDX-License-Identifier: Apache-2.0
#include "shm/burst.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <random>

namespace headrace::shm {
namespace {

constexpr uint32_t kBuffers = 1000;
constexpr uint32_t kStride = 2240;

using Burst = std::array<Packet, 33>;

/// Packets inside their buffers.
Burst valid(std::mt19937& random) {
  Burst burst{};
  for (Packet& packet : burst) {
    packet.buffer = random() % kBuffers;
    packet.begin = static_cast<uint16_t>(random() % (kStride + 1));
    packet.length = static_cast<uint16_t>(random() % (kStride - packet.begin + 1));
  }
  return burst;
}

TEST(Burst, EachVariantFindsEachPacketThatIsOutsideItsBuffer) {
  std::mt19937 random(1);
  for (const BurstFunctions& burst_of : burst_variants()) {
    SCOPED_TRACE(burst_of.name);
    for (uint32_t count = 0; count <= Burst().size(); ++count) {
      Burst burst = valid(random);
      EXPECT_TRUE(burst_of.are_inside(burst.data(), count, kBuffers, kStride)) << count;
      for (uint32_t bad = 0; bad < count; ++bad) {
        for (const Packet& wrong :
             {Packet{kBuffers, 0, 60}, Packet{~0u, 0, 60}, Packet{1u << 31, 0, 60},
              Packet{1, kStride, 1}, Packet{1, 0, kStride + 1}, Packet{1, 65535, 65535}}) {
          Burst with = burst;
          with[bad] = wrong;
          EXPECT_FALSE(burst_of.are_inside(with.data(), count, kBuffers, kStride))
              << bad << " of " << count << ": " << wrong.buffer << " " << wrong.begin;
        }
      }
    }
  }
}

TEST(Burst, EachVariantComparesBuffersAlone) {
  std::mt19937 random(2);
  for (const BurstFunctions& burst_of : burst_variants()) {
    SCOPED_TRACE(burst_of.name);
    for (uint32_t count = 0; count <= Burst().size(); ++count) {
      const Burst a = valid(random);
      Burst b = a;
      for (Packet& packet : b) packet.begin = packet.length = static_cast<uint16_t>(random());
      EXPECT_TRUE(burst_of.same_buffers(a.data(), b.data(), count));
      for (uint32_t other = 0; other < count; ++other) {
        Burst with = b;
        with[other].buffer ^= 1u << random() % 32;
        EXPECT_FALSE(burst_of.same_buffers(a.data(), with.data(), count)) << other;
      }
    }
  }
}

TEST(Burst, EachVariantAddsUpLengths) {
  std::mt19937 random(3);
  for (const BurstFunctions& burst_of : burst_variants()) {
    SCOPED_TRACE(burst_of.name);
    for (uint32_t count = 0; count <= Burst().size(); ++count) {
      Burst burst{};
      for (Packet& packet : burst) packet = {~0u, 65535, static_cast<uint16_t>(random())};
      const uint64_t sum = std::accumulate(
          burst.begin(), burst.begin() + count, uint64_t{0},
          [](uint64_t octets, const Packet& packet) { return octets + packet.length; });
      EXPECT_EQ(burst_of.octets_of(burst.data(), count), sum);
    }
  }
}

}  // namespace
}  // namespace headrace::shm
