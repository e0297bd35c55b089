// SPDX-License-Identifier: Apache-2.0
// Messages of a front-end that librte_vhost does not survive by itself.
#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "pipeline/terms/port_io.h"
#include "port/vhost/guarded_mapping.h"
#include "port/vhost/test_front_end.h"

namespace headrace::port::vhost {
namespace {

constexpr uint16_t kSize = 16;
constexpr uint8_t kMemoryFile = 1;
constexpr uint8_t kEventFile = 2;  // cannot be mapped

size_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

void await_guest() {
  while (!the_switch().device->look()) ::usleep(1000);
}

void await_no_guest() {
  while (the_switch().device->status()["status"] != "disconnected" || guarded_mappings() != 0) {
    ::usleep(1000);
  }
}

class Messages : public testing::TestWithParam<uint64_t> {
 protected:
  Messages() : front_(GetParam(), kSize) {
    require(front_.finish(kSetOwner, {}));
    await_guest();
  }
  ~Messages() override {
    front_.hang_up();
    await_no_guest();
  }

  /// Makes as much available in both vrings as they hold.
  void offer_all() const {
    for (size_t vring = 0; vring < 2; ++vring) {
      const size_t ring = vring * kVringMemory;
      for (uint16_t i = 0; i < kSize; ++i) {
        const uint64_t address = ring + (1 << 17) + uint64_t{i} * 2048;
        const uint32_t length = 2048;
        const auto flags = static_cast<uint16_t>(vring == 0 ? 2 : 0);
        std::array<uint8_t, 16> descriptor{};
        std::memcpy(&descriptor[0], &address, 8);
        std::memcpy(&descriptor[8], &length, 4);
        if (front_.is_packed()) {
          const auto available = static_cast<uint16_t>(flags | 1 << 7);
          std::memcpy(&descriptor[12], &i, 2);
          std::memcpy(&descriptor[14], &available, 2);
        } else {
          std::memcpy(&descriptor[12], &flags, 2);
          front_.write(ring + kRings[1] + 4 + size_t{i} * 2, FrontEnd::words<uint16_t>({i}));
        }
        front_.write(ring + size_t{i} * 16, descriptor);
      }
      if (!front_.is_packed()) {
        front_.write(ring + kRings[1], FrontEnd::words<uint16_t>({0, kSize}));
      }
    }
  }

  /// A poll may find the library still in the message that it has answered: it is repeated.
  static unsigned receive() {
    TestSwitch& sw = the_switch();
    unsigned count = 0;
    for (int polls = 0; polls < 20 && count == 0; ++polls) {
      const std::lock_guard lock(sw.working);
      std::array<rte_mbuf*, pipeline::kBurst> burst;
      count = sw.data->rx(0, burst);
      rte_pktmbuf_free_bulk(burst.data(), count);
      ::usleep(100);
    }
    return count;
  }
  static unsigned transmit(unsigned count) {
    TestSwitch& sw = the_switch();
    const std::lock_guard lock(sw.working);
    std::array<rte_mbuf*, pipeline::kBurst> burst;
    require(rte_pktmbuf_alloc_bulk(sw.pool.get(), burst.data(), count) == 0);
    for (unsigned i = 0; i < count; ++i) {
      std::memset(rte_pktmbuf_append(burst[i], 60), 0x45, 60);
    }
    const uint16_t sent = sw.data->tx(0, {burst.data(), count});
    rte_pktmbuf_free_bulk(&burst[sent], count - sent);
    return sent;
  }
  /// What shares `octets` octets of its memory.
  static std::vector<uint8_t> memory_of(uint64_t octets) {
    return FrontEnd::words<uint64_t>({1, 0, octets, kUserBase, 0});
  }

  FrontEnd front_;
};

TEST_P(Messages, WhoseMemoryCannotBeMappedAnewFindsItsConnectionEnded) {
  offer_all();
  ASSERT_EQ(receive(), kSize);
  ASSERT_EQ(transmit(4), 4u);
  const size_t files = open_files();
  (void)front_.finish(kSetMemTable, memory_of(kMemory / 2), front_.file(kEventFile));
  // The worker may still be on the way.
  EXPECT_EQ(receive(), 0u);
  EXPECT_EQ(transmit(4), 0u);
  EXPECT_FALSE(front_.finish(kSetOwner, {}));
  await_no_guest();
  front_.connect();
  await_guest();
  EXPECT_LE(open_files(), files);
  offer_all();
  EXPECT_EQ(transmit(4), 4u);
}

TEST_P(Messages, MemoryThatIsMappedAnewIsUsed) {
  offer_all();
  ASSERT_EQ(transmit(4), 4u);
  ASSERT_TRUE(front_.finish(kSetMemTable, memory_of(kMemory / 2), front_.file(kMemoryFile)));
  EXPECT_EQ(guarded_mappings(), 1u);
  EXPECT_EQ(receive(), kSize);
  EXPECT_EQ(transmit(kSize), kSize - 4u);
}

TEST_P(Messages, MemoryThatCannotBeIsRefusedAndTheOldOneIsKept) {
  offer_all();
  const size_t files = open_files();
  for (const uint64_t octets : {uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 62}) {
    ASSERT_TRUE(front_.finish(kSetMemTable, memory_of(octets), front_.file(kMemoryFile)));
  }
  EXPECT_EQ(open_files(), files);
  EXPECT_EQ(receive(), kSize);
  EXPECT_EQ(transmit(kSize), kSize);
}

TEST_P(Messages, ALogAtAnOffsetIsRefused) {
  const size_t mapped = guarded_mappings();
  const size_t files = open_files();
  ASSERT_TRUE(front_.finish(kSetLogBase, FrontEnd::words<uint64_t>({4096, 4096}),
                            front_.file(kMemoryFile)));
  EXPECT_EQ(guarded_mappings(), mapped);
  EXPECT_EQ(open_files(), files);
}

TEST_P(Messages, FilesOfOneThatIsRefusedAreClosed) {
  const size_t files = open_files();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(
        front_.finish(kSetVringNum, FrontEnd::words<uint32_t>({0, 0}), front_.file(kEventFile)));
  }
  EXPECT_EQ(open_files(), files);
}

TEST_P(Messages, AMigratedGuestIsAnnouncedWhateverItsRingHas) {
  for (const bool offers : {false, true}) {
    if (offers) offer_all();
    ASSERT_TRUE(front_.finish(kSendRarp, FrontEnd::words<uint64_t>({0x0605'0403'0202})));
    unsigned received = 0;
    for (int polls = 0; polls < 100; ++polls) received += receive();
    EXPECT_EQ(received, offers ? kSize + 1u : 1u);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Messages, testing::Values(uint64_t{0}, kPacked),
                         [](const auto& info) { return info.param == 0 ? "split" : "packed"; });

}  // namespace
}  // namespace headrace::port::vhost
