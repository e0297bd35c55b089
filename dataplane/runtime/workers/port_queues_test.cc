// SPDX-License-Identifier: Apache-2.0
// The scheduler of a port's queues, over time that the test tells.
#include "runtime/workers/port_queues.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <map>

#include "eal/eal.h"
#include "eal/mempool.h"
#include "pipeline/terms/packet_queue.h"

namespace headrace::runtime {
namespace {

constexpr uint32_t kBuffers = 4095;
constexpr uint64_t kHz = 1'000'000'000;
constexpr uint32_t kBytes = 1000;
constexpr uint64_t kMegabit = 1'000'000;

/// Counts what it is sent, by queue; takes `room` per call.
class Sink final : public pipeline::PortIo {
 public:
  uint16_t rx(uint16_t, std::span<rte_mbuf*>) noexcept override { return 0; }
  uint16_t tx(uint16_t, std::span<rte_mbuf*> packets) noexcept override {
    const auto count = std::min<size_t>(packets.size(), room);
    for (size_t i = 0; i < count; ++i) {
      ++sent[packets[i]->port];
      rte_pktmbuf_free(packets[i]);
    }
    return static_cast<uint16_t>(count);
  }
  size_t room{1000};
  std::map<uint16_t, uint64_t> sent;  ///< by the queue that the test had in mind
};

class PortQueuesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto eal = eal::Eal::init({.file_prefix = "headrace-queues-test-" + std::to_string(::getpid()),
                               .memory_mb = 64,
                               .allow_hugepages = false});
    ASSERT_TRUE(eal) << eal.error().message;
    eal_ = std::move(*eal);
    auto pool = eal::make_mempool({.name = "queues-test", .buffers = kBuffers, .cache = 0});
    ASSERT_TRUE(pool) << pool.error().message;
    pool_ = std::move(*pool);
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(rte_mempool_avail_count(pool_.get()), kBuffers) << "buffers leaked";
    pool_.reset();
    eal_.reset();
  }

  void make(pipeline::QosConfig qos) {
    static int serial = 0;
    auto made = PortQueues::make("pq" + std::to_string(serial++), sink_, qos, kHz, backlog_);
    ASSERT_TRUE(made) << made.error().message;
    queues_ = std::move(*made);
  }
  void put(uint32_t queue, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get());
      ASSERT_NE(packet, nullptr);
      rte_pktmbuf_append(packet, kBytes);
      packet->port = static_cast<uint16_t>(queue);
      if (queue != 0) pipeline::set_queue(*packet, queue);
      queues_->tx(0, {&packet, 1});
    }
  }
  /// Keeps the queues full and drains them often for `seconds` of the test's time.
  void run(double seconds, const std::vector<uint32_t>& full) {
    const auto end = now_ + static_cast<uint64_t>(seconds * kHz);
    for (; now_ < end; now_ += kHz / 10'000) {
      for (const PortQueues::Counts& counts : queues_->counts()) {
        if (std::find(full.begin(), full.end(), counts.id) == full.end()) continue;
        while (waiting_[counts.id] < counts.packets + 100) {
          put(counts.id, 1);
          ++waiting_[counts.id];
        }
      }
      queues_->drain(0, now_);
    }
  }
  /// What a queue has sent, in Mbit/s over `seconds`.
  double megabits(uint32_t queue, double seconds) {
    return static_cast<double>(sink_.sent[static_cast<uint16_t>(queue)]) * kBytes * 8 / seconds /
           kMegabit;
  }

  static inline std::unique_ptr<eal::Eal> eal_;
  static inline eal::Mempool pool_;
  Backlog backlog_;
  Sink sink_;
  std::unique_ptr<PortQueues> queues_;
  uint64_t now_{kHz};
  std::map<uint32_t, uint64_t> waiting_;
};

TEST_F(PortQueuesTest, SendsAtOnceWithoutLimits) {
  make({});
  put(0, 100);
  put(7, 10);  // there is none: queue 0
  queues_->drain(0, now_);
  EXPECT_EQ(sink_.sent[0], 100u);
  EXPECT_EQ(sink_.sent[7], 10u);
  EXPECT_EQ(queues_->counts().front().packets, 110u);
}

TEST_F(PortQueuesTest, KeepsTheMaximumRateOfAQueueAndOfThePort) {
  make({.max_rate_bps = 30 * kMegabit,
        .queues = {{.id = 0}, {.id = 1, .max_rate_bps = 10 * kMegabit}}});
  run(2, {0, 1});
  EXPECT_NEAR(megabits(1, 2), 10, 0.5);
  EXPECT_NEAR(megabits(0, 2) + megabits(1, 2), 30, 1);
}

TEST_F(PortQueuesTest, KeepsPromisesThenPriorities) {
  make({.max_rate_bps = 20 * kMegabit,
        .queues = {{.id = 0, .priority = 9},
                   {.id = 1, .min_rate_bps = 5 * kMegabit, .priority = 9},
                   {.id = 2, .priority = 1}}});
  run(2, {0, 1, 2});
  // Queue 1 has what it was promised; queue 2 all else; nothing is left for queue 0.
  EXPECT_NEAR(megabits(1, 2), 5, 0.5);
  EXPECT_NEAR(megabits(2, 2), 15, 0.5);
  EXPECT_LT(megabits(0, 2), 0.2);
}

TEST_F(PortQueuesTest, SharesTheRestByWeight) {
  make({.max_rate_bps = 40 * kMegabit,
        .queues = {{.id = 0},
                   {.id = 1, .min_rate_bps = 3 * kMegabit},
                   {.id = 2, .min_rate_bps = 1 * kMegabit}}});
  run(2, {1, 2});
  EXPECT_NEAR(megabits(1, 2) / megabits(2, 2), 3, 0.3);
  EXPECT_NEAR(megabits(1, 2) + megabits(2, 2), 40, 1);
}

TEST_F(PortQueuesTest, KeepsWhatTheDeviceDoesNotTake) {
  make({});
  sink_.room = 3;
  put(0, 10);
  for (int i = 0; i < 4; ++i) queues_->drain(0, now_);
  EXPECT_EQ(sink_.sent[0], 10u);
}

TEST_F(PortQueuesTest, CountsWhatFindsNoRoom) {
  make({.max_rate_bps = 1});
  put(0, PortQueues::kCapacity + 10);
  EXPECT_EQ(queues_->dropped(), 11u);  // a ring holds one less than its size
}

TEST_F(PortQueuesTest, ManyFullQueuesOfAPortLeaveOthersTheirBuffers) {
  pipeline::QosConfig qos{.max_rate_bps = 1};
  for (uint32_t id = 0; id < 8; ++id) qos.queues.push_back({.id = id});
  make(qos);
  for (uint32_t id = 0; id < 8; ++id) put(id, 600);
  EXPECT_LE(rte_mempool_in_use_count(pool_.get()), kBuffers / 4 + 1) << "a quarter of the pool";
  EXPECT_EQ(queues_->dropped(), 8u * 600 - rte_mempool_in_use_count(pool_.get()));
  EXPECT_EQ(backlog_.queued(*pool_), rte_mempool_in_use_count(pool_.get()));

  auto other = PortQueues::make("pq-other", sink_, {.max_rate_bps = 1}, kHz, backlog_);
  ASSERT_TRUE(other);
  queues_.swap(*other);
  put(0, 500);
  EXPECT_EQ(queues_->dropped(), 0u) << "another port still has room";
  queues_.reset();
  other->reset();
  EXPECT_EQ(backlog_.queued(*pool_), 0u);
  EXPECT_EQ(rte_mempool_in_use_count(pool_.get()), 0u);
}

TEST_F(PortQueuesTest, HandsWhatWaitsToItsSuccessor) {
  make({.max_rate_bps = 1});
  put(0, 100);
  auto next = PortQueues::make("pq-next", sink_, {}, kHz, backlog_);
  ASSERT_TRUE(next);
  queues_->hand_over(**next);
  EXPECT_EQ(backlog_.queued(*pool_), 100u);
  (*next)->drain(0, now_);
  EXPECT_EQ(sink_.sent[0], 100u);
  EXPECT_EQ(backlog_.queued(*pool_), 0u);
}

}  // namespace
}  // namespace headrace::runtime
