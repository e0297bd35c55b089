// SPDX-License-Identifier: Apache-2.0
// No two threads are ever in one queue, however ports and workers come and go under load.
//
// The device of this test notices: each of its queues has a count of the threads that are in it.
// It sleeps inside of rx() and tx() now and then, so that a worker that is late in a queue is met
// there by the next owner, also where there are more workers than cores.
#include <gtest/gtest.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "eal/eal.h"
#include "eal/mempool.h"
#include "eal/thread.h"
#include "runtime/workers/worker_pool.h"

namespace headrace::runtime {
namespace {

using pipeline::PortNo;

constexpr uint32_t kBuffers = 8191;
constexpr uint16_t kQueues = 2;
constexpr unsigned kPorts = 6;
constexpr PortNo kSink = 100;
constexpr int kChanges = 200;

/// A frame in a buffer of the pool's; null: it has none.
rte_mbuf* new_frame(rte_mempool& pool) {
  rte_mbuf* packet = rte_pktmbuf_alloc(&pool);
  if (packet == nullptr) return nullptr;
  auto* data = reinterpret_cast<uint8_t*>(rte_pktmbuf_append(packet, 60));
  if (data == nullptr) std::abort();
  std::memset(data, 0, 60);
  data[0] = 2;
  data[12] = 0x88;  // an ethertype for experiments (IEEE 802, 0x88b5)
  data[13] = 0xb5;
  return packet;
}

/// A queue of the device: who is in it.
struct alignas(64) Watched {
  std::atomic<int> threads{0};
  std::atomic<uint64_t> calls{0};
};

/// For as long as it lives, its thread is in a queue.
class Inside {
 public:
  Inside(Watched& queue, std::atomic<uint64_t>& meetings) : queue_(queue) {
    if (queue_.threads.fetch_add(1) != 0) meetings.fetch_add(1);
    const uint64_t call = queue_.calls.fetch_add(1, std::memory_order_relaxed);
    if (call % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  ~Inside() { queue_.threads.fetch_sub(1); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  Watched& queue_;
};

/// A device with kQueues receive queues that always bring something, and as many transmit queues.
class WatchedDevice final : public pipeline::PortIo {
 public:
  WatchedDevice(rte_mempool* pool, std::atomic<uint64_t>& meetings)
      : pool_(pool), meetings_(meetings) {}

  uint16_t rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    const Inside inside(received_[queue], meetings_);
    while (held.load()) std::this_thread::yield();
    uint16_t count = 0;
    while (count < 4 && count < packets.size()) {
      rte_mbuf* packet = new_frame(*pool_);
      if (packet == nullptr) break;
      packets[count++] = packet;
    }
    return count;
  }
  uint16_t tx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    const Inside inside(sent_[queue], meetings_);
    rte_pktmbuf_free_bulk(packets.data(), static_cast<unsigned>(packets.size()));
    return static_cast<uint16_t>(packets.size());
  }

  [[nodiscard]] uint64_t polls(uint16_t queue) const { return received_[queue].calls.load(); }
  [[nodiscard]] uint64_t sends(uint16_t queue) const { return sent_[queue].calls.load(); }
  [[nodiscard]] int inside(uint16_t queue) const { return received_[queue].threads.load(); }

  std::atomic<bool> held{false};  ///< who is in rx() stays there

 private:
  rte_mempool* pool_;
  std::atomic<uint64_t>& meetings_;
  std::array<Watched, kQueues> received_;
  std::array<Watched, kQueues> sent_;
};

class HandoverTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto eal =
        eal::Eal::init({.file_prefix = "headrace-handover-test-" + std::to_string(::getpid()),
                        .memory_mb = 64,
                        .allow_hugepages = false});
    ASSERT_TRUE(eal) << eal.error().message;
    eal_ = std::move(*eal);
    auto pool = eal::make_mempool({.name = "handover-test", .buffers = kBuffers, .cache = 0});
    ASSERT_TRUE(pool) << pool.error().message;
    pool_ = std::move(*pool);
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(rte_mempool_avail_count(pool_.get()), kBuffers) << "buffers leaked";
    pool_.reset();
    eal_.reset();
  }

  void SetUp() override {
    auto wake_up = WakeUp::make();
    ASSERT_TRUE(wake_up);
    wake_up_ = std::move(*wake_up);
    lsi_ = std::make_shared<pipeline::Lsi>(
        pipeline::LsiConfig{.id = 7, .name = "test", .clock = {}}, qsbr_);
    sink_device_ = std::make_unique<WatchedDevice>(pool_.get(), meetings_);
    sink_ = std::make_unique<TxQueues>(*sink_device_, kQueues);
    ASSERT_TRUE(lsi_->add_port({.number = kSink, .name = "sink", .io = sink_.get()}));
    pipeline::FlowMod mod;
    mod.instructions.push_back(pipeline::ApplyActions{{pipeline::OutputAction{.port = kSink}}});
    ASSERT_TRUE(lsi_->flow_mod(mod));
    for (unsigned i = 0; i < kPorts; ++i) {
      devices_.push_back(std::make_unique<WatchedDevice>(pool_.get(), meetings_));
      ASSERT_TRUE(lsi_->add_port(
          {.number = i + 1, .name = fmt::format("p{}", i), .io = devices_[i].get()}));
    }
  }
  void TearDown() override {
    workers_.reset();
    lsi_.reset();
    qsbr_.drain();
  }

  /// The queues of the devices whose bit is set.
  std::vector<RxQueue> queues(unsigned present) {
    std::vector<RxQueue> all;
    for (unsigned i = 0; i < kPorts; ++i) {
      if ((present >> i & 1) == 0) continue;
      for (uint16_t queue = 0; queue < kQueues; ++queue) {
        all.push_back({.entry = {.io = devices_[i].get(),
                                 .queue = queue,
                                 .in_port = i + 1,
                                 .lsi = lsi_.get(),
                                 .counters = &counters_[i][queue]},
                       .port = std::to_string(i),
                       .affinity = {}});
      }
    }
    return all;
  }
  /// Lets the workers poll so many times more, if there is anything to poll.
  void run_on(uint64_t polls) {
    const auto all = [this] {
      uint64_t sum = 0;
      for (const auto& device : devices_) sum += device->polls(0) + device->polls(1);
      return sum;
    };
    const uint64_t enough = all() + polls;
    while (!workers_->queues().empty() && all() < enough) {
      qsbr_.reclaim();
      std::this_thread::yield();
    }
  }
  static std::vector<unsigned> some(const std::vector<unsigned>& cpus, size_t count) {
    return {cpus.begin(), cpus.begin() + static_cast<ptrdiff_t>(std::min(count, cpus.size()))};
  }
  /// Usable CPUs, twice each: workers that are preempted in a queue are the hard case.
  static std::vector<unsigned> cpus() {
    std::vector<unsigned> usable;
    for (unsigned cpu = 0; cpu < std::thread::hardware_concurrency() && usable.size() < 4; ++cpu) {
      if (eal::is_cpu_usable(cpu)) usable.push_back(cpu);
    }
    std::vector<unsigned> twice = usable;
    twice.insert(twice.end(), usable.begin(), usable.end());
    return twice;
  }

  static inline std::unique_ptr<eal::Eal> eal_;
  static inline eal::Mempool pool_;
  std::unique_ptr<WakeUp> wake_up_;
  Qsbr qsbr_;
  std::atomic<uint64_t> meetings_{0};
  std::vector<std::unique_ptr<WatchedDevice>> devices_;
  std::unique_ptr<WatchedDevice> sink_device_;
  std::unique_ptr<TxQueues> sink_;
  std::array<std::array<QueueCounters, kQueues>, kPorts> counters_;
  std::shared_ptr<pipeline::Lsi> lsi_;
  std::unique_ptr<WorkerPool> workers_;
};

TEST_F(HandoverTest, TheNextOwnerWaitsForTheOldOnesRound) {
  workers_ = std::make_unique<WorkerPool>(qsbr_, *wake_up_);
  ASSERT_TRUE(workers_->set_cpus(cpus()));
  if (workers_->cpus().front() == workers_->cpus().back()) GTEST_SKIP() << "one CPU only";
  WatchedDevice& device = *devices_[0];
  std::vector<RxQueue> all = queues(0b11);
  const auto pin = [&](unsigned cpu) {
    for (RxQueue& queue : all) {
      if (queue.entry.io == &device) queue.affinity = cpu;
    }
    workers_->set_queues({.rx = all});
  };
  pin(workers_->cpus().front());
  device.held = true;
  const auto is_held = [&] { return device.inside(0) + device.inside(1) > 0; };
  while (!is_held()) std::this_thread::yield();
  const uint64_t polls = device.polls(0) + device.polls(1);
  pin(workers_->cpus().back());
  // The new owner has many rounds' time to make the mistake.
  const WorkerCounters& next = workers_->workers().back()->counters();
  const uint64_t rounds = next.rounds.read();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (next.rounds.read() < rounds + 100 && std::chrono::steady_clock::now() < end) {
    qsbr_.reclaim();
    std::this_thread::yield();
  }
  EXPECT_EQ(device.polls(0) + device.polls(1), polls) << "polled before the old owner left";
  device.held = false;
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (device.polls(0) + device.polls(1) == polls && std::chrono::steady_clock::now() < late) {
    qsbr_.reclaim();
    std::this_thread::yield();
  }
  EXPECT_GT(device.polls(0) + device.polls(1), polls) << "not polled by the new owner";
  EXPECT_EQ(meetings_.load(), 0u) << "two threads were in one queue";
}

TEST_F(HandoverTest, AWorkerWhoseQueuesStayIsNotTouched) {
  workers_ = std::make_unique<WorkerPool>(qsbr_, *wake_up_);
  ASSERT_TRUE(workers_->set_cpus(cpus()));
  workers_->set_queues({.rx = queues(0b1)});
  std::vector<const PollPlan*> before;
  for (const auto& worker : workers_->workers()) before.push_back(&worker->plan());
  const auto owners = [&] {
    std::vector<std::optional<size_t>> all;
    for (const RxQueue& queue : workers_->queues()) all.push_back(queue.worker);
    return all;
  };
  const auto first = owners();
  workers_->set_queues({.rx = queues(0b1)});
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(&workers_->workers()[i]->plan(), before[i]) << "a new plan for nothing";
  }
  workers_->set_queues({.rx = queues(0b11)});
  auto then = owners();
  then.resize(kQueues);
  EXPECT_EQ(then, first);
  workers_->set_queues({});
  qsbr_.drain();
}

TEST_F(HandoverTest, AWorkerIsAloneWhileThereIsNoOther) {
  workers_ = std::make_unique<WorkerPool>(qsbr_, *wake_up_);
  const std::vector<unsigned> all_cpus = cpus();
  for (const size_t count : {1, 2, 3, 1, 4, 1}) {
    ASSERT_TRUE(workers_->set_cpus(some(all_cpus, count)));
    ASSERT_EQ(workers_->workers().size(), std::min(count, all_cpus.size()));
    for (const auto& worker : workers_->workers()) EXPECT_EQ(worker->is_alone(), count == 1);
    workers_->set_queues({.rx = queues(0b1)});
    for (const auto& worker : workers_->workers()) EXPECT_EQ(worker->is_alone(), count == 1);
  }
}

TEST_F(HandoverTest, PortsThatComeAndGoAreNeverPolledByTwo) {
  workers_ = std::make_unique<WorkerPool>(qsbr_, *wake_up_);
  ASSERT_TRUE(workers_->set_cpus(cpus()));
  const std::vector<unsigned> all_cpus = workers_->cpus();
  std::mt19937 random(1);
  for (int change = 0; change < kChanges; ++change) {
    std::vector<RxQueue> present = queues(static_cast<unsigned>(random()) % (1u << kPorts));
    for (RxQueue& queue : present) {
      if (random() % 4 == 0) queue.affinity = workers_->cpus()[random() % workers_->cpus().size()];
    }
    workers_->set_queues({.rx = std::move(present), .tx = {sink_.get()}});
    // Workers come and go, too; more of them than there are CPUs, and than transmit queues.
    if (change % 8 == 0) {
      ASSERT_TRUE(workers_->set_cpus(some(all_cpus, 1 + random() % 4)));
    }
    run_on(100);
  }
  workers_->set_queues({});
  qsbr_.drain();
  EXPECT_EQ(meetings_.load(), 0u) << "two threads were in one queue";
  for (const auto& device : devices_) EXPECT_GT(device->polls(0), 0u);
  EXPECT_GT(sink_device_->sends(0), 0u);
  EXPECT_GT(sink_device_->sends(1), 0u);
}

}  // namespace
}  // namespace headrace::runtime
