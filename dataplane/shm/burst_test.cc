// SPDX-License-Identifier: Apache-2.0
#include "shm/burst.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace headrace::shm {
namespace {

constexpr uint32_t kMost = 67;  // more than two bursts, and not a multiple of any vector

/// What a burst is checked against: of a region, or of a header that a faulty VNF overwrote.
struct Bounds {
  uint32_t n_buffers;
  uint32_t stride;
};
constexpr std::array kBounds = {Bounds{1000, 2240},      Bounds{1, 64},
                                Bounds{1u << 24, 65472}, Bounds{~0u, kMaxStride},
                                Bounds{1u << 31, 192},   Bounds{8192, 0}};

/// The definition, packet by packet.
bool is_inside(const Packet& packet, const Bounds& bounds) {
  return packet.buffer < bounds.n_buffers &&
         uint32_t{packet.begin} + uint32_t{packet.length} <= bounds.stride;
}

/// Packets inside their buffers.
std::vector<Packet> valid(std::mt19937& random, uint32_t count, const Bounds& bounds) {
  std::vector<Packet> burst(count);
  for (Packet& packet : burst) {
    packet.buffer = random() % bounds.n_buffers;
    packet.begin = static_cast<uint16_t>(random() % (bounds.stride + 1));
    packet.length = static_cast<uint16_t>(random() % (bounds.stride - packet.begin + 1));
  }
  return burst;
}

/// Whatever a hostile VNF may write: random words, and numbers next to each bound.
Packet hostile(std::mt19937& random, const Bounds& bounds) {
  const std::array<uint32_t, 8> buffers = {
      0,        1,  bounds.n_buffers - 1, bounds.n_buffers, bounds.n_buffers + 1, 0x7fffffff,
      1u << 31, ~0u};
  const std::array<uint32_t, 7> sizes = {
      0, 1, bounds.stride - 1, bounds.stride, bounds.stride + 1, 32768, 65535};
  const auto size = [&] {
    return static_cast<uint16_t>(random() % 4 == 0 ? random() : sizes[random() % sizes.size()]);
  };
  Packet packet{};
  packet.buffer =
      random() % 4 == 0 ? static_cast<uint32_t>(random()) : buffers[random() % buffers.size()];
  packet.begin = size();
  packet.length = size();
  return packet;
}

bool same_octets(const std::vector<Packet>& a, const std::vector<Packet>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Packet)) == 0);
}

/// One test for each variant, so that a failure or an illegal instruction names it.
class Burst : public testing::TestWithParam<uint32_t> {
 protected:
  const BurstFunctions& variant_{burst_variants()[GetParam()]};
  std::mt19937 random_{11};
};

TEST_P(Burst, FindsEachPacketThatIsOutsideItsBuffer) {
  for (const Bounds& bounds : kBounds) {
    for (uint32_t count = 0; count <= kMost; ++count) {
      const std::vector<Packet> slots = valid(random_, count, bounds);
      // A packet after the last must stay as it is.
      std::vector<Packet> packets(count + 1, Packet{7, 7, 7});
      EXPECT_TRUE(
          variant_.take(packets.data(), slots.data(), count, bounds.n_buffers, bounds.stride))
          << count;
      EXPECT_EQ(packets.back().buffer, 7u);
      packets.pop_back();
      EXPECT_TRUE(same_octets(packets, slots)) << count;
      for (uint32_t bad = 0; bad < count; ++bad) {
        std::vector<Packet> with = slots;
        do {
          with[bad] = hostile(random_, bounds);
        } while (is_inside(with[bad], bounds));
        EXPECT_FALSE(
            variant_.take(packets.data(), with.data(), count, bounds.n_buffers, bounds.stride))
            << bad << " of " << count << ": " << with[bad].buffer << " " << with[bad].begin << " "
            << with[bad].length << " in " << bounds.n_buffers << " of " << bounds.stride;
      }
    }
  }
}

TEST_P(Burst, AgreesWithTheDefinitionOnHostileDescriptors) {
  uint32_t good = 0;
  for (uint32_t round = 0; round < 60'000; ++round) {
    const Bounds& bounds = kBounds[round % kBounds.size()];
    const uint32_t count = random_() % (round % 3 == 0 ? kMost + 1 : 4);
    std::vector<Packet> slots(count);
    for (Packet& packet : slots) packet = hostile(random_, bounds);
    // Every other burst has one such packet among valid ones, so that both answers occur.
    if (round % 2 == 0 && count > 0) {
      const Packet one = slots.front();
      slots = valid(random_, count, bounds);
      slots[random_() % count] = one;
    }
    std::vector<Packet> packets(count);
    const bool expected =
        std::ranges::all_of(slots, [&](const Packet& packet) { return is_inside(packet, bounds); });
    good += expected && count > 0 ? 1 : 0;
    ASSERT_EQ(variant_.take(packets.data(), slots.data(), count, bounds.n_buffers, bounds.stride),
              expected)
        << count;
    ASSERT_TRUE(same_octets(packets, slots));
  }
  EXPECT_GT(good, 1000u) << "nearly all were invalid: the test shows little";
}

TEST_P(Burst, CopiesAndAddsUpLengths) {
  for (uint32_t count = 0; count <= kMost; ++count) {
    std::vector<Packet> packets(count);
    uint64_t sum = 0;
    for (Packet& packet : packets) {
      packet = {~0u, 65535, static_cast<uint16_t>(random_() % 2 == 0 ? random_() : 65535)};
      sum += packet.length;
    }
    std::vector<Packet> slots(count + 1, Packet{7, 7, 7});
    EXPECT_EQ(variant_.put(slots.data(), packets.data(), count), sum) << count;
    EXPECT_EQ(slots.back().buffer, 7u);
    slots.pop_back();
    EXPECT_TRUE(same_octets(slots, packets));
  }
}

TEST_P(Burst, ComparesBuffersAlone) {
  for (uint32_t count = 0; count <= kMost; ++count) {
    const std::vector<Packet> a = valid(random_, count, kBounds[2]);
    std::vector<Packet> b = a;
    for (Packet& packet : b) packet.begin = packet.length = static_cast<uint16_t>(random_());
    EXPECT_TRUE(variant_.same_buffers(a.data(), b.data(), count)) << count;
    for (uint32_t other = 0; other < count; ++other) {
      for (uint32_t bit = 0; bit < 32; ++bit) {
        std::vector<Packet> with = b;
        with[other].buffer ^= 1u << bit;
        EXPECT_FALSE(variant_.same_buffers(a.data(), with.data(), count)) << other << " " << bit;
      }
    }
  }
}

TEST_P(Burst, ChecksWhatItHasCopiedWhileSlotsAreOverwritten) {
  // Slots change between valid and invalid all the time, as a hostile VNF of the group may do.
  constexpr uint32_t kCount = 32;
  constexpr Bounds kOf{1000, 2240};
  std::vector<Packet> slots(kCount, Packet{1, 128, 60});
  std::atomic<bool> ended{false};
  std::thread attacker([&] {
    auto* words = reinterpret_cast<volatile uint64_t*>(slots.data());
    const Packet good{1, 128, 60};
    const Packet bad{kOf.n_buffers, 128, 60};
    uint64_t good_word = 0;
    uint64_t bad_word = 0;
    std::memcpy(&good_word, &good, sizeof good);
    std::memcpy(&bad_word, &bad, sizeof bad);
    for (uint32_t i = 0; !ended.load(std::memory_order_relaxed); ++i) {
      words[i % kCount] = bad_word;
      words[i % kCount] = good_word;
    }
  });
  std::vector<Packet> packets(kCount);
  for (uint32_t round = 0; round < 100'000; ++round) {
    const bool inside =
        variant_.take(packets.data(), slots.data(), kCount, kOf.n_buffers, kOf.stride);
    const bool are =
        std::ranges::all_of(packets, [&](const Packet& packet) { return is_inside(packet, kOf); });
    if (inside != are) {
      ADD_FAILURE() << "checked something else than it copied";
      break;
    }
  }
  ended.store(true);
  attacker.join();
}

INSTANTIATE_TEST_SUITE_P(OnThisProcessor, Burst,
                         testing::Range(0u, static_cast<uint32_t>(burst_variants().size())),
                         [](const auto& variant) {
                           return std::string(burst_variants()[variant.param].name);
                         });

TEST(BurstVariants, TheLastRunsOnAnyProcessor) {
  EXPECT_STREQ(burst_variants().back().name, "portable");
}

}  // namespace
}  // namespace headrace::shm
