// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/qsbr.h"

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace headrace::runtime {
namespace {

TEST(Qsbr, WithoutWorkersNothingWaits) {
  Qsbr qsbr;
  bool ran = false;
  qsbr.defer([&] { ran = true; });
  EXPECT_EQ(qsbr.reclaim(), 0u);
  EXPECT_TRUE(ran);
}

TEST(Qsbr, WaitsForEveryWorkerAfterTheCall) {
  Qsbr qsbr;
  qsbr.go_online(0);
  qsbr.go_online(5);
  bool ran = false;
  qsbr.quiescent(0);  // before the call: does not count
  qsbr.defer([&] { ran = true; });
  EXPECT_EQ(qsbr.reclaim(), 1u);
  qsbr.quiescent(0);
  EXPECT_EQ(qsbr.reclaim(), 1u);
  EXPECT_FALSE(ran);
  qsbr.quiescent(5);
  EXPECT_EQ(qsbr.reclaim(), 0u);
  EXPECT_TRUE(ran);
  qsbr.go_offline(0);
  qsbr.go_offline(5);
}

TEST(Qsbr, AnOfflineWorkerDelaysNobody) {
  Qsbr qsbr;
  qsbr.go_online(3);
  bool ran = false;
  qsbr.defer([&] { ran = true; });
  EXPECT_EQ(qsbr.reclaim(), 1u);
  qsbr.go_offline(3);
  EXPECT_EQ(qsbr.reclaim(), 0u);
  EXPECT_TRUE(ran);
}

TEST(Qsbr, KeepsTheOrderAndAllowsDeferringAgain) {
  Qsbr qsbr;
  std::vector<int> order;
  qsbr.defer([&] {
    order.push_back(1);
    qsbr.defer([&] { order.push_back(3); });
  });
  qsbr.defer([&] { order.push_back(2); });
  qsbr.drain();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(Qsbr, WakesWhenSomethingBecomesPending) {
  Qsbr qsbr;
  int woken = 0;
  qsbr.on_pending([&] { ++woken; });
  qsbr.defer([] {});
  qsbr.defer([] {});
  EXPECT_EQ(woken, 1);
  qsbr.drain();
  qsbr.defer([] {});
  EXPECT_EQ(woken, 2);
}

/// CPU time of the calling thread.
std::chrono::nanoseconds cpu_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// The control thread goes first on its CPU. A worker that shares it could not end its round while
/// that thread spins for it.
TEST(Qsbr, WaitingLeavesTheCpuToWorkers) {
  constexpr std::chrono::milliseconds kRound{300};
  for (const bool by_drain : {true, false}) {
    Qsbr qsbr;
    std::atomic<bool> online{false};
    std::atomic<bool> waiting{false};
    std::thread worker([&] {
      qsbr.go_online(0);
      online = true;
      while (!waiting) std::this_thread::yield();
      std::this_thread::sleep_for(kRound);
      qsbr.go_offline(0);
    });
    while (!online) std::this_thread::yield();
    qsbr.defer([] {});
    const auto before = cpu_time();
    waiting = true;
    if (by_drain) {
      qsbr.drain();
    } else {
      qsbr.wait();
    }
    EXPECT_LT(cpu_time() - before, kRound / 2) << (by_drain ? "drain()" : "wait()");
    worker.join();
    qsbr.drain();
  }
}

TEST(Qsbr, KeepsTheLongestWait) {
  Qsbr qsbr;
  EXPECT_EQ(qsbr.longest_wait().count(), 0);
  qsbr.wait();
  EXPECT_EQ(qsbr.longest_wait().count(), 0) << "without workers nothing waits";
  constexpr std::chrono::milliseconds kRounds[] = {std::chrono::milliseconds(40),
                                                   std::chrono::milliseconds(5)};
  for (const auto round : kRounds) {
    std::atomic<bool> online{false};
    std::thread worker([&] {
      qsbr.go_online(2);
      online = true;
      std::this_thread::sleep_for(round);
      qsbr.go_offline(2);
    });
    while (!online) std::this_thread::yield();
    qsbr.wait();
    worker.join();
    EXPECT_GE(qsbr.longest_wait(), std::chrono::milliseconds(30)) << "the shorter one is not kept";
  }
}

/// A reader must never see what a deferred function destroyed.
TEST(Qsbr, ReadersNeverSeeWhatWasReclaimed) {
  constexpr uint64_t kAlive = 0x600d600d600d600d;
  struct Node {
    std::atomic<uint64_t> mark{kAlive};
  };
  Qsbr qsbr;
  std::atomic<Node*> shared{new Node};
  std::atomic<bool> stop{false};
  std::atomic<int> online{0};
  std::atomic<uint64_t> dead{0};
  std::vector<std::thread> readers;
  for (unsigned id = 0; id < 2; ++id) {
    readers.emplace_back([&, id] {
      qsbr.go_online(id);
      ++online;
      while (!stop.load(std::memory_order_relaxed)) {
        const Node* node = shared.load(std::memory_order_acquire);
        for (int i = 0; i < 50; ++i) {
          if (node->mark.load(std::memory_order_relaxed) != kAlive) ++dead;
        }
        qsbr.quiescent(id);
      }
      qsbr.go_offline(id);
    });
  }
  while (online < 2) std::this_thread::yield();
  for (int i = 0; i < 2000; ++i) {
    Node* old = shared.exchange(new Node, std::memory_order_acq_rel);
    qsbr.defer([old] {
      old->mark.store(0, std::memory_order_relaxed);
      delete old;
    });
    if (i % 16 == 0) qsbr.drain();
    qsbr.reclaim();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  qsbr.drain();
  delete shared.load();
  EXPECT_EQ(dead, 0u);
}

}  // namespace
}  // namespace headrace::runtime
