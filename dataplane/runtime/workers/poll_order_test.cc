// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/poll_order.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace headrace::runtime {
namespace {

constexpr uint64_t kHz = 2'000'000'000;
constexpr uint64_t kIntervalCycles = kHz / 1'000'000 * PollOrder::kIntervalUs;

/// Queues, some with packets, under a clock of the test's own.
class Queues {
 public:
  explicit Queues(uint32_t count) : order_(count, kHz), polled_(count, 0), count_(count) {}

  /// A round of so many cycles; the queues that were polled, in order.
  std::vector<uint32_t> round(uint64_t cycles) {
    now_ += cycles;
    std::vector<uint32_t> polled;
    order_.run(now_, [&](uint32_t queue) {
      polled.push_back(queue);
      longest_ = std::max(longest_, now_ - polled_[queue]);
      polled_[queue] = now_;
      return with_packets.contains(queue);
    });
    return polled;
  }
  void rounds(unsigned number, uint64_t cycles) {
    for (unsigned i = 0; i < number; ++i) round(cycles);
  }
  /// The longest time that a queue was not polled, since the last call.
  uint64_t longest_wait() {
    for (uint32_t queue = 0; queue < count_; ++queue) {
      longest_ = std::max(longest_, now_ - polled_[queue]);
    }
    return std::exchange(longest_, 0);
  }
  [[nodiscard]] uint32_t idle() const { return order_.idle(); }

  std::set<uint32_t> with_packets;

 private:
  PollOrder order_;
  std::vector<uint64_t> polled_;
  uint32_t count_;
  uint64_t now_{0};
  uint64_t longest_{0};
};

TEST(PollOrder, OnlyIdleQueuesAreLeftOut) {
  Queues queues(1000);
  queues.with_packets = {3, 500};
  EXPECT_EQ(queues.round(1000).size(), 1000u) << "none is idle at first";
  queues.rounds(PollOrder::kIdleAfter, 1000);
  EXPECT_EQ(queues.idle(), 998u);
  for (int i = 0; i < 1000; ++i) {
    const std::vector<uint32_t> polled = queues.round(1000);
    const std::set<uint32_t> once(polled.begin(), polled.end());
    EXPECT_EQ(once.size(), polled.size()) << "one is polled twice";
    EXPECT_TRUE(once.contains(3) && once.contains(500));
    EXPECT_LE(polled.size(), 2u + PollOrder::kAtLeast);
  }
}

TEST(PollOrder, NoQueueWaitsForLong) {
  std::mt19937 random(5);  // NOLINT(cert-msc51-cpp): the same test each time
  for (const uint64_t cycles : {200u, 1000u, 10'000u, 90'000u, 200'000u}) {
    Queues queues(1000);
    queues.rounds(2 * PollOrder::kIdleAfter, cycles);
    queues.longest_wait();
    for (int i = 0; i < 5000; ++i) {
      if (i % 50 == 0) {
        queues.with_packets.clear();
        for (int k = 0; k < 5; ++k) queues.with_packets.insert(random() % 1000);
      }
      queues.round(cycles);
    }
    EXPECT_LE(queues.longest_wait(), 2 * kIntervalCycles + 2 * cycles) << cycles;
  }
}

TEST(PollOrder, AWorkerWithoutPacketsLooksMoreOften) {
  Queues queues(1000);
  queues.rounds(2 * PollOrder::kIdleAfter, 200);
  queues.longest_wait();
  queues.rounds(5000, 200);
  // So many rounds take a turn of the least share.
  EXPECT_LE(queues.longest_wait(), (1000 / PollOrder::kAtLeast + 2) * 200);
}

TEST(PollOrder, ARoundWithPacketsPollsOnlyWhatIsDue) {
  constexpr uint64_t kCycles = kIntervalCycles / 50;
  Queues queues(256);
  queues.with_packets = {7};
  queues.rounds(2 * PollOrder::kIdleAfter, kCycles);
  EXPECT_EQ(queues.idle(), 255u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(queues.round(kCycles).size(), 1u + 255 / 50 + 1);
}

TEST(PollOrder, TheFirstPacketRestoresAQueue) {
  Queues queues(200);
  queues.rounds(2 * PollOrder::kIdleAfter, 1000);
  EXPECT_EQ(queues.idle(), 200u);
  queues.with_packets = {77};
  queues.rounds(200 / PollOrder::kAtLeast + 1, 1000);
  EXPECT_EQ(queues.idle(), 199u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(queues.round(1000).front(), 77u);
  queues.with_packets.clear();
  queues.rounds(PollOrder::kIdleAfter, 1000);
  EXPECT_EQ(queues.idle(), 200u);
}

TEST(PollOrder, AFewQueuesArePolledInEveryRound) {
  Queues queues(PollOrder::kAtLeast);
  for (int i = 0; i < 1000; ++i) {
    const std::vector<uint32_t> polled = queues.round(100);
    EXPECT_EQ(std::set<uint32_t>(polled.begin(), polled.end()).size(), PollOrder::kAtLeast);
  }
  Queues none(0);
  EXPECT_TRUE(none.round(100).empty());
}

TEST(PollOrder, ALongRoundPollsAll) {
  Queues queues(1000);
  queues.rounds(2 * PollOrder::kIdleAfter, 1000);
  EXPECT_EQ(queues.round(kIntervalCycles).size(), 1000u);
}

}  // namespace
}  // namespace headrace::runtime
