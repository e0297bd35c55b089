// SPDX-License-Identifier: Apache-2.0
// Which transmit queues are locked, and that a lock keeps threads apart.
#include "runtime/workers/tx_queues.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace headrace::runtime {
namespace {

/// Notes which queues are used, and whether two threads are in one of them at once.
class Device final : public pipeline::PortIo {
 public:
  uint16_t rx(uint16_t, std::span<rte_mbuf*>) noexcept override { return 0; }
  uint16_t tx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    if (inside[queue].exchange(true)) ++meetings;
    plain[queue] += packets.size();  // a race if the lock does not order it
    inside[queue] = false;
    return static_cast<uint16_t>(packets.size());
  }
  std::atomic<bool> inside[4]{};
  uint64_t plain[4]{};
  std::atomic<unsigned> meetings{0};
};

constexpr unsigned kAll[] = {0, 1, 2, 3, 4, 5};

TEST(TxQueues, LocksWhatSeveralWorkersMapTo) {
  Device device;
  TxQueues queues(device, 4);
  EXPECT_TRUE(queues.is_shared(0)) << "before it is known who sends";
  EXPECT_FALSE(queues.set_workers(std::span(kAll).first(4)));
  for (uint16_t queue = 0; queue < 4; ++queue) EXPECT_FALSE(queues.is_shared(queue));
  EXPECT_TRUE(queues.set_workers(kAll)) << "workers must wait for a grace period";
  EXPECT_TRUE(queues.is_shared(0) && queues.is_shared(1));
  EXPECT_FALSE(queues.is_shared(2) || queues.is_shared(3));
  EXPECT_FALSE(queues.set_workers(kAll)) << "they are locked already";
}

TEST(TxQueues, EachWorkerSendsOnItsQueue) {
  Device device;
  TxQueues queues(device, 4);
  queues.set_workers(kAll);
  rte_mbuf* none[3]{};
  EXPECT_EQ(queues.tx(2, none), 3);
  EXPECT_EQ(queues.tx(5, none), 3);
  EXPECT_EQ(device.plain[2], 3u);
  EXPECT_EQ(device.plain[1], 3u);
}

TEST(TxQueues, ASharedQueueHasOneThreadAtATime) {
  constexpr unsigned kThreads = 4;
  constexpr unsigned kSends = 20000;
  Device device;
  TxQueues queues(device, 1);
  queues.set_workers(std::span(kAll).first(kThreads));
  std::vector<std::jthread> threads;
  for (unsigned worker = 0; worker < kThreads; ++worker) {
    threads.emplace_back([&queues, worker] {
      rte_mbuf* none[2]{};
      for (unsigned i = 0; i < kSends; ++i) queues.tx(static_cast<uint16_t>(worker), none);
    });
  }
  threads.clear();
  EXPECT_EQ(device.meetings.load(), 0u);
  EXPECT_EQ(device.plain[0], 2u * kThreads * kSends);
}

}  // namespace
}  // namespace headrace::runtime
