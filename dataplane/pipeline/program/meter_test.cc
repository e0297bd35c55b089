// SPDX-License-Identifier: Apache-2.0
#include "pipeline/program/meter.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace headrace::pipeline {
namespace {

constexpr uint64_t kNow = 1'000'000;
constexpr uint64_t kUnitCost = uint64_t{1} << 16;  // one time unit, 1/256 cycle, for each octet

// Of the workers that share a meter.
constexpr unsigned kThreads = 4;
constexpr unsigned kBursts = 2000;
constexpr uint32_t kOctets = 100;

/// A meter whose bands take so many octets at once.
std::unique_ptr<MeterProgram> meter(uint64_t first, uint64_t second = 0) {
  auto made = std::make_unique<MeterProgram>();
  made->has_band = true;
  made->first.cost = kUnitCost;
  made->first.burst = first;
  if (second > 0) {
    made->rest.push_back(std::make_unique<BandProgram>());
    made->rest.back()->cost = kUnitCost;
    made->rest.back()->burst = second;
  }
  return made;
}

TEST(Meter, ChargingTogetherIsChargingOneByOne) {
  std::array<uint32_t, 32> lengths;
  for (size_t k = 0; k < lengths.size(); ++k) lengths[k] = static_cast<uint32_t>(60 + 37 * k % 900);
  const auto together = meter(5000, 9000);
  const auto singly = meter(5000, 9000);
  for (uint64_t now = kNow; now < kNow + 100; now += 7) {
    std::array<const BandProgram*, 32> exceeded;
    together->charge(now, lengths, exceeded, false);
    for (size_t k = 0; k < lengths.size(); ++k) {
      const BandProgram* one = singly->charge(now, lengths[k], k % 2 == 0);
      const auto name = [](const MeterProgram& of, const BandProgram* band) {
        return band == nullptr ? 0 : band == &of.first ? 1 : 2;
      };
      EXPECT_EQ(name(*together, exceeded[k]), name(*singly, one)) << now << ": packet " << k;
    }
    EXPECT_EQ(together->first.empty_at.load(), singly->first.empty_at.load());
  }
}

TEST(Meter, AWorkerThatIsAloneChargesTheSame) {
  std::array<uint32_t, 32> lengths;
  for (size_t k = 0; k < lengths.size(); ++k) lengths[k] = static_cast<uint32_t>(60 + 53 * k % 900);
  const auto shared = meter(5000, 9000);
  const auto alone = meter(5000, 9000);
  for (uint64_t now = kNow; now < kNow + 100; now += 7) {
    std::array<const BandProgram*, 32> by_many;
    std::array<const BandProgram*, 32> by_one;
    shared->charge(now, lengths, by_many, false);
    alone->charge(now, lengths, by_one, true);
    for (size_t k = 0; k < lengths.size(); ++k) {
      EXPECT_EQ(by_many[k] == nullptr, by_one[k] == nullptr) << now << ": packet " << k;
    }
    EXPECT_EQ(shared->first.empty_at.load(), alone->first.empty_at.load());
    EXPECT_EQ(shared->rest[0]->empty_at.load(), alone->rest[0]->empty_at.load());
  }
}

TEST(Meter, WithoutABandNothingExceeds) {
  MeterProgram none;
  const std::array<uint32_t, 2> lengths{60, 60};
  std::array<const BandProgram*, 2> exceeded{&none.first, &none.first};
  none.charge(kNow, lengths, exceeded, false);
  EXPECT_EQ(exceeded[0], nullptr);
  EXPECT_EQ(exceeded[1], nullptr);
  EXPECT_EQ(none.charge(kNow, lengths[0], false), nullptr);
}

TEST(Meter, WorkersShareItWithoutLoss) {
  // Room for half of what comes, at one time.
  const auto shared = meter(uint64_t{kThreads} * kBursts * 32 * kOctets / 2);
  std::array<uint64_t, kThreads> passed{};
  {
    std::vector<std::jthread> threads;
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&shared, &count = passed[thread]] {
        std::array<uint32_t, 32> lengths;
        lengths.fill(kOctets);
        std::array<const BandProgram*, 32> exceeded;
        for (unsigned burst = 0; burst < kBursts; ++burst) {
          shared->charge(kNow, lengths, exceeded, false);
          count += static_cast<uint64_t>(std::ranges::count(exceeded, nullptr));
        }
      });
    }
  }
  uint64_t all = 0;
  for (const uint64_t count : passed) all += count;
  // The one that reaches the limit still conforms.
  EXPECT_EQ(all, uint64_t{kThreads} * kBursts * 32 / 2 + 1);
}

}  // namespace
}  // namespace headrace::pipeline
