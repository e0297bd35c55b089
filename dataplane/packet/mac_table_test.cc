// SPDX-License-Identifier: Apache-2.0
#include "packet/mac_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

namespace headrace::packet {
namespace {

constexpr uint32_t kAge = 300;

MacAddress mac(uint8_t number) {
  return {2, 0, 0, 0, 0, number};
}

TEST(MacTable, FindsThePortWhereAnAddressWasLastSeen) {
  MacTable table(64, kAge);
  EXPECT_EQ(table.find(mac(1).data(), 0, 0), std::nullopt);
  table.learn(mac(1).data(), 0, 7, 0);
  EXPECT_EQ(table.find(mac(1).data(), 0, 0), 7u);
  table.learn(mac(1).data(), 0, 9, 0);
  EXPECT_EQ(table.find(mac(1).data(), 0, 0), 9u);
  EXPECT_EQ(table.list(0).size(), 1u);
}

TEST(MacTable, LearnsAnAddressOncePerVlan) {
  MacTable table(64, kAge);
  table.learn(mac(1).data(), 10, 1, 0);
  table.learn(mac(1).data(), 20, 2, 0);
  EXPECT_EQ(table.find(mac(1).data(), 10, 0), 1u);
  EXPECT_EQ(table.find(mac(1).data(), 20, 0), 2u);
  EXPECT_EQ(table.find(mac(1).data(), 0, 0), std::nullopt);
}

TEST(MacTable, DoesNotLearnGroupAddressesOrZeros) {
  MacTable table(64, kAge);
  table.learn(MacAddress{1, 0, 0x5e, 0, 0, 1}.data(), 0, 1, 0);
  table.learn(MacAddress{}.data(), 0, 1, 0);
  EXPECT_TRUE(table.list(0).empty());
  EXPECT_EQ(table.find(MacAddress{}.data(), 0, 0), std::nullopt);
}

TEST(MacTable, ForgetsByAgeEvenWhereTheTickWrapsAround) {
  MacTable table(64, kAge);
  const uint32_t late = UINT32_MAX - 10;
  table.learn(mac(1).data(), 0, 1, late);
  EXPECT_EQ(table.find(mac(1).data(), 0, late + kAge), 1u);
  EXPECT_EQ(table.find(mac(1).data(), 0, late + kAge + 1), std::nullopt);
  EXPECT_EQ(table.find(mac(1).data(), 0, late - 5), 1u) << "a worker whose clock is behind";
  table.expire(late + kAge + 1);
  table.set_max_age(10 * kAge);
  EXPECT_EQ(table.find(mac(1).data(), 0, late), std::nullopt) << "expire() removed it";
}

TEST(MacTable, EvictsTheAddressOfABucketThatWasSeenLongestAgo) {
  MacTable table(16, kAge);  // two buckets: of seventeen addresses one has nine or more
  for (uint8_t i = 0; i < 17; ++i) table.learn(mac(i).data(), 0, i, 100U + i);
  EXPECT_EQ(table.find(mac(16).data(), 0, 120), 16u) << "learning never fails";
  EXPECT_LT(table.list(120).size(), 17u);
  uint32_t newest_lost = 0;
  for (uint8_t i = 0; i < 17; ++i) {
    if (!table.find(mac(i).data(), 0, 120)) newest_lost = i;
  }
  EXPECT_LT(newest_lost, 9u) << "an address that left is older than the eight of its bucket";
}

/// A bridge of ten thousand hosts, at a sixth of the table's capacity.
TEST(MacTable, LosesNoneOfTenThousandAddresses) {
  MacTable table(65536, kAge);
  const auto address = [](uint32_t i) {
    return MacAddress{2, 0, 0, 1, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)};
  };
  for (uint32_t i = 0; i < 10'000; ++i) table.learn(address(i).data(), 0, i, 0);
  for (uint32_t i = 0; i < 10'000; ++i) ASSERT_EQ(table.find(address(i).data(), 0, 0), i);
}

TEST(MacTable, ForgetsAPort) {
  MacTable table(64, kAge);
  table.learn(mac(1).data(), 0, 1, 0);
  table.learn(mac(2).data(), 0, 2, 0);
  table.forget_port(1);
  EXPECT_EQ(table.find(mac(1).data(), 0, 0), std::nullopt);
  EXPECT_EQ(table.find(mac(2).data(), 0, 0), 2u);
}

TEST(MacTable, MergesWhatAnotherHasLearnedWithItsAge) {
  MacTable old(16, kAge);
  old.learn(mac(1).data(), 5, 70000, 50);
  MacTable table(1024, kAge);
  table.merge(old);
  EXPECT_EQ(table.find(mac(1).data(), 5, 50 + kAge), 70000u);
  EXPECT_EQ(table.find(mac(1).data(), 5, 51 + kAge), std::nullopt);
}

TEST(MacTable, AReaderNeverSeesAnAddressWithThePortOfAnother) {
  MacTable table(4, kAge);
  std::atomic<bool> stop{false};
  const auto learn = [&](uint8_t offset) {
    // More addresses than entries: they evict each other all the time. Address i is on port i.
    for (uint8_t i = offset; !stop.load(std::memory_order_relaxed); i = (i + 2) % 32) {
      table.learn(mac(i).data(), 0, i, 0);
    }
  };
  std::thread first(learn, uint8_t{0});
  std::thread second(learn, uint8_t{1});
  unsigned wrong = 0;
  for (int round = 0; round < 20'000; ++round) {
    const auto i = static_cast<uint8_t>(round % 32);
    if (table.find(mac(i).data(), 0, 0).value_or(i) != i) ++wrong;
  }
  stop = true;
  first.join();
  second.join();
  EXPECT_EQ(wrong, 0u);
}

/// Resident memory of this process, KiB.
size_t resident_kib() {
  std::ifstream statm("/proc/self/statm");
  size_t size = 0;
  size_t resident = 0;
  statm >> size >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) / 1024;
}

TEST(MacTable, TakesMemoryWhenItLearns) {
  const size_t before = resident_kib();
  std::vector<std::unique_ptr<MacTable>> tables;
  for (int i = 0; i < 100; ++i) {
    tables.push_back(std::make_unique<MacTable>(size_t{64} << 10, 300));
    tables.back()->expire(1000);
    tables.back()->forget_port(1);
    tables.back()->clear();
    EXPECT_TRUE(tables.back()->list(0).empty());
  }
  EXPECT_LT(resident_kib() - before, 10'000) << "100 tables of 1 MiB each";
}

}  // namespace
}  // namespace headrace::packet
