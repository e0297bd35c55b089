// SPDX-License-Identifier: Apache-2.0
#include "traffic/trial/trial.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

namespace headrace::traffic {
namespace {

TEST(SharePorts, OneWorkerHasAll) {
  for (const auto& [sends, polls] : share_ports(5, 1)) {
    EXPECT_EQ(sends, 0U);
    EXPECT_EQ(polls, 0U);
  }
}

TEST(SharePorts, WithFewPortsSendingAndPollingAreShared) {
  using Shares = std::vector<std::pair<unsigned, unsigned>>;
  EXPECT_EQ(share_ports(1, 2), (Shares{{0, 1}}));
  EXPECT_EQ(share_ports(2, 2), (Shares{{0, 0}, {1, 1}}));
  EXPECT_EQ(share_ports(2, 4), (Shares{{0, 1}, {2, 3}}));
}

TEST(SharePorts, NobodyHasTwoDutiesMoreThanAnother) {
  for (unsigned workers = 1; workers <= 8; ++workers) {
    for (size_t ports = 1; ports <= 16; ++ports) {
      std::map<unsigned, int> assignments;
      for (unsigned worker = 0; worker < workers; ++worker) assignments[worker] = 0;
      for (const auto& [sends, polls] : share_ports(ports, workers)) {
        ASSERT_LT(sends, workers);
        ASSERT_LT(polls, workers);
        ++assignments[sends];
        ++assignments[polls];
      }
      int least = assignments[0];
      int most = assignments[0];
      for (const auto& [worker, count] : assignments) {
        least = std::min(least, count);
        most = std::max(most, count);
      }
      EXPECT_LE(most - least, 2) << ports << " ports, " << workers << " workers";
    }
  }
}

TEST(Barrier, NobodyGoesOnBeforeAllAreThere) {
  constexpr unsigned kParties = 4;
  constexpr int kRounds = 200;
  Barrier barrier(kParties);
  std::atomic<unsigned> came{0};
  unsigned acts = 0;  // run by the last thread only, and seen by all
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kParties; ++i) {
    threads.emplace_back([&] {
      for (int round = 1; round <= kRounds; ++round) {
        came.fetch_add(1);
        barrier.wait(true, [&] { ++acts; });
        if (came.load() < static_cast<unsigned>(round) * kParties) ++wrong;
        if (acts < static_cast<unsigned>(round)) ++wrong;
        barrier.wait(true, [] {});
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(acts, static_cast<unsigned>(kRounds));
}

}  // namespace
}  // namespace headrace::traffic
