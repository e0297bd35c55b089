// SPDX-License-Identifier: Apache-2.0
// Workers, packet-outs, punts and shared transmit queues over ports that are queues in memory.
#include "runtime/workers/worker.h"

#include <gtest/gtest.h>
#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "eal/eal.h"
#include "eal/mempool.h"
#include "pipeline/program/action_program.h"
#include "runtime/workers/worker_pool.h"

namespace headrace::runtime {
namespace {

using pipeline::PortNo;

constexpr uint32_t kBuffers = 4095;

/// A port that is two rings: what the test puts in comes out of rx(), what tx() takes the test can
/// take out.
class RingPort final : public pipeline::PortIo {
 public:
  RingPort() {
    static int serial = 0;
    const std::string name = "ringport-" + std::to_string(serial++);
    in_.reset(rte_ring_create((name + "i").c_str(), 1024, SOCKET_ID_ANY, 0));
    out_.reset(rte_ring_create((name + "o").c_str(), 1024, SOCKET_ID_ANY, 0));
  }
  ~RingPort() override {
    while (rte_mbuf* packet = take()) rte_pktmbuf_free(packet);
    void* packet = nullptr;
    while (rte_ring_dequeue(in_.get(), &packet) == 0) {
      rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
    }
  }
  uint16_t rx(uint16_t, std::span<rte_mbuf*> packets) noexcept override {
    return static_cast<uint16_t>(
        rte_ring_dequeue_burst(in_.get(), reinterpret_cast<void**>(packets.data()),
                               static_cast<unsigned>(packets.size()), nullptr));
  }
  uint16_t tx(uint16_t, std::span<rte_mbuf*> packets) noexcept override {
    return static_cast<uint16_t>(
        rte_ring_enqueue_burst(out_.get(), reinterpret_cast<void**>(packets.data()),
                               static_cast<unsigned>(packets.size()), nullptr));
  }
  void put(rte_mbuf* packet) { ASSERT_EQ(rte_ring_enqueue(in_.get(), packet), 0); }
  rte_mbuf* take() {
    void* packet = nullptr;
    return rte_ring_dequeue(out_.get(), &packet) == 0 ? static_cast<rte_mbuf*>(packet) : nullptr;
  }

 private:
  Ring in_;
  Ring out_;
};

class WorkerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto eal = eal::Eal::init({.file_prefix = "headrace-worker-test-" + std::to_string(::getpid()),
                               .memory_mb = 64,
                               .allow_hugepages = false});
    ASSERT_TRUE(eal) << eal.error().message;
    eal_ = std::move(*eal);
    auto pool = eal::make_mempool({.name = "worker-test", .buffers = kBuffers, .cache = 0});
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
    qsbr_ = std::make_unique<Qsbr>();
    lsi_ = std::make_shared<pipeline::Lsi>(
        pipeline::LsiConfig{.id = 7, .name = "test", .clock = {}}, *qsbr_);
    for (PortNo number = 1; number <= 2; ++number) {
      ASSERT_TRUE(lsi_->add_port(
          {.number = number, .name = fmt::format("p{}", number), .io = &ports_[number - 1]}));
    }
  }

  void TearDown() override {
    pool_of_workers_.reset();
    lsi_.reset();
    qsbr_.reset();
  }

  /// Workers on these CPUs that poll port 1 and port 2.
  void start(std::vector<unsigned> cpus) {
    pool_of_workers_ = std::make_unique<WorkerPool>(*qsbr_, *wake_up_);
    ASSERT_TRUE(pool_of_workers_->set_cpus(std::move(cpus)));
    QueueSet queues;
    for (PortNo number = 1; number <= 2; ++number) {
      queues.rx.push_back({.entry = {.io = &ports_[number - 1],
                                     .queue = 0,
                                     .in_port = number,
                                     .lsi = lsi_.get(),
                                     .counters = &counters_[number - 1]},
                           .port = fmt::format("p{}", number),
                           .affinity = {}});
    }
    pool_of_workers_->set_queues(std::move(queues));
  }

  /// Port 1 -> what `actions` say.
  void rule(PortNo in_port, pipeline::ActionList actions) {
    pipeline::FlowMod mod;
    const uint32_t wire = rte_cpu_to_be_32(in_port);
    mod.match.add(match::Field::in_port, reinterpret_cast<const uint8_t*>(&wire));
    mod.priority = 10;
    mod.instructions.push_back(pipeline::ApplyActions{std::move(actions)});
    ASSERT_TRUE(lsi_->flow_mod(mod));
  }

  static rte_mbuf* frame(uint8_t mark) {
    rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get());
    auto* data = reinterpret_cast<uint8_t*>(rte_pktmbuf_append(packet, 60));
    if (data == nullptr) std::abort();
    std::memset(data, 0, 60);
    data[0] = 2;
    data[12] = 0x88;  // an ethertype for experiments (IEEE 802, 0x88b5)
    data[13] = 0xb5;
    data[59] = mark;
    return packet;
  }

  /// Marks of what comes out of `port` until there are `count` or time runs out.
  static std::vector<uint8_t> marks(RingPort& port, size_t count) {
    std::vector<uint8_t> seen;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (seen.size() < count && std::chrono::steady_clock::now() < end) {
      rte_mbuf* packet = port.take();
      if (packet == nullptr) {
        std::this_thread::yield();
        continue;
      }
      seen.push_back(rte_pktmbuf_mtod(packet, uint8_t*)[59]);
      rte_pktmbuf_free(packet);
    }
    return seen;
  }

  static inline std::unique_ptr<eal::Eal> eal_;
  static inline eal::Mempool pool_;
  std::unique_ptr<WakeUp> wake_up_;
  std::unique_ptr<Qsbr> qsbr_;
  RingPort ports_[2];
  QueueCounters counters_[2];
  std::shared_ptr<pipeline::Lsi> lsi_;
  std::unique_ptr<WorkerPool> pool_of_workers_;
};

std::vector<uint8_t> sequence(uint8_t count) {
  std::vector<uint8_t> numbers(count);
  for (uint8_t i = 0; i < count; ++i) numbers[i] = i;
  return numbers;
}

TEST_F(WorkerTest, ForwardsInOrderAndCounts) {
  rule(1, {pipeline::OutputAction{.port = 2}});
  start({0});
  for (uint8_t i = 0; i < 200; ++i) ports_[0].put(frame(i));
  EXPECT_EQ(marks(ports_[1], 200), sequence(200));
  pool_of_workers_->set_queues({});
  qsbr_->drain();  // the round that sent the last packet is over: its counts are written
  const WorkerCounters& counters = pool_of_workers_->workers()[0]->counters();
  EXPECT_EQ(counters.packets.read(), 200u);
  EXPECT_EQ(counters_[0].packets.read(), 200u);
  EXPECT_GT(counters.busy_cycles.read(), 0u);
  EXPECT_GT(counters.idle_cycles.read(), 0u);
  EXPECT_LE(counters.busy_rounds.read(), 200u);
}

TEST_F(WorkerTest, AQueueThatIsAlwaysFullLeavesTheOthersTheirTurn) {
  /// Brings full bursts for ever, of frames that no rule takes.
  class Flood final : public pipeline::PortIo {
   public:
    uint16_t rx(uint16_t, std::span<rte_mbuf*> packets) noexcept override {
      for (rte_mbuf*& packet : packets) packet = frame(0);
      polls.fetch_add(1, std::memory_order_relaxed);
      return static_cast<uint16_t>(packets.size());
    }
    uint16_t tx(uint16_t, std::span<rte_mbuf*>) noexcept override { return 0; }
    std::atomic<uint64_t> polls{0};
  } flood;
  rule(2, {pipeline::OutputAction{.port = 1}});
  start({0});
  const WorkerCounters& counters = pool_of_workers_->workers()[0]->counters();
  std::vector<RxQueue> queues = pool_of_workers_->queues();
  queues[0].entry.io = &flood;
  pool_of_workers_->set_queues({.rx = queues});
  qsbr_->drain();
  for (uint8_t i = 0; i < 200; ++i) ports_[1].put(frame(i));
  EXPECT_EQ(marks(ports_[0], 200), sequence(200));
  pool_of_workers_->set_queues({});
  qsbr_->drain();
  EXPECT_EQ(counters_[1].packets.read(), 200u);
  EXPECT_EQ(counters_[0].bursts.read(), flood.polls.load());
  EXPECT_EQ(counters_[0].full_bursts.read(), flood.polls.load());
  EXPECT_EQ(counters_[0].packets.read(), flood.polls.load() * pipeline::kBurst);
  EXPECT_EQ(counters.packets.read(), flood.polls.load() * pipeline::kBurst + 200);
  EXPECT_GT(flood.polls.load(), counters.busy_rounds.read()) << "several bursts in a round";
  EXPECT_LE(flood.polls.load(), counters.busy_rounds.read() * kBurstsPerPoll);
}

TEST_F(WorkerTest, StageTimingAddsUp) {
  rule(1, {pipeline::OutputAction{.port = 2}});
  start({0});
  pool_of_workers_->set_stage_timing(true);
  pool_of_workers_->set_queues({.rx = pool_of_workers_->queues()});
  qsbr_->drain();  // every round from here on is timed
  for (uint8_t i = 0; i < 64; ++i) ports_[0].put(frame(i));
  EXPECT_EQ(marks(ports_[1], 64).size(), 64u);
  pool_of_workers_->set_queues({});
  qsbr_->drain();
  const WorkerCounters& counters = pool_of_workers_->workers()[0]->counters();
  EXPECT_EQ(counters.staged_packets.read(), 64u);
  EXPECT_GT(counters.receive_cycles.read(), 0u);
  EXPECT_GT(counters.pipeline_cycles.read(), 0u);
  EXPECT_LE(counters.receive_cycles.read() + counters.pipeline_cycles.read() +
                counters.transmit_cycles.read(),
            counters.busy_cycles.read());
}

TEST_F(WorkerTest, SleepsWhenIdleAndStillForwards) {
  rule(1, {pipeline::OutputAction{.port = 2}});
  start({0});
  pool_of_workers_->set_max_sleep(200);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const WorkerCounters& counters = pool_of_workers_->workers()[0]->counters();
  EXPECT_GT(counters.sleep_cycles.read(), 0u);
  EXPECT_LE(counters.sleep_cycles.read(), counters.idle_cycles.read());
  ports_[0].put(frame(9));
  EXPECT_EQ(marks(ports_[1], 1), std::vector<uint8_t>{9});
  bool ran = false;
  qsbr_->defer([&] { ran = true; });
  qsbr_->drain();  // a sleeper delays nobody for ever
  EXPECT_TRUE(ran);
}

TEST_F(WorkerTest, PacketOutsRunAndComeBack) {
  start({0});
  PacketOutRing& ring = pool_of_workers_->workers()[0]->packet_outs();
  const std::weak_ptr<pipeline::ActionProgram> watched = [&] {
    auto compiled = lsi_->compile({pipeline::OutputAction{.port = 2}});
    EXPECT_TRUE(compiled);
    auto job = std::make_unique<PacketOutJob>(
        PacketOutJob{lsi_, pipeline::kPortController, std::move(*compiled), frame(5)});
    std::weak_ptr<pipeline::ActionProgram> actions = job->actions;
    EXPECT_TRUE(ring.submit(job));
    return actions;
  }();
  EXPECT_EQ(marks(ports_[1], 1), std::vector<uint8_t>{5});
  for (int i = 0; i < 1000 && ring.reap(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(watched.expired()) << "the job must be freed once the worker is done with it";
}

TEST_F(WorkerTest, PacketOutsOfAnEndedWorkerAreFreed) {
  start({0});
  pool_of_workers_->set_max_sleep(1000);
  PacketOutRing& ring = pool_of_workers_->workers()[0]->packet_outs();
  for (uint8_t i = 0; i < 100; ++i) {
    auto compiled = lsi_->compile({pipeline::OutputAction{.port = 2}});
    ASSERT_TRUE(compiled);
    auto job = std::make_unique<PacketOutJob>(
        PacketOutJob{lsi_, pipeline::kPortController, std::move(*compiled), frame(i)});
    ASSERT_TRUE(ring.submit(job));
  }
  pool_of_workers_.reset();  // the leak check at the end counts buffers
}

TEST_F(WorkerTest, PuntsReachTheControlThread) {
  rule(1, {pipeline::OutputAction{.port = pipeline::kPortController}});
  start({0});
  for (uint8_t i = 0; i < 10; ++i) ports_[0].put(frame(i));
  std::vector<uint8_t> seen;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (seen.size() < 10 && std::chrono::steady_clock::now() < end) {
    wake_up_->lower();
    pool_of_workers_->workers()[0]->punts().read(
        64, [&](const pipeline::PuntInfo& info, std::span<const uint8_t> packet) {
          EXPECT_EQ(info.lsi_id, 7u);
          EXPECT_EQ(info.in_port, 1u);
          EXPECT_EQ(packet.size(), 60u);
          seen.push_back(packet.back());
        });
  }
  EXPECT_EQ(seen, sequence(10));
}

TEST_F(WorkerTest, WorkersComeAndGo) {
  rule(1, {pipeline::OutputAction{.port = 2}});
  start({0});
  ASSERT_TRUE(pool_of_workers_->set_cpus({1, 0}));
  EXPECT_EQ(pool_of_workers_->cpus(), (std::vector<unsigned>{0, 1}));
  ports_[0].put(frame(1));
  EXPECT_EQ(marks(ports_[1], 1), std::vector<uint8_t>{1});
  ASSERT_TRUE(pool_of_workers_->set_cpus({1}));
  ports_[0].put(frame(2));
  EXPECT_EQ(marks(ports_[1], 1), std::vector<uint8_t>{2});
  EXPECT_FALSE(pool_of_workers_->set_cpus({}));
  EXPECT_FALSE(pool_of_workers_->set_cpus({1, 1000}));
  EXPECT_EQ(pool_of_workers_->cpus(), std::vector<unsigned>{1}) << "the possible ones run";
}

/// Idle queues of a port that is never there, with what they are said to have cost.
class LoadedQueues {
 public:
  static constexpr size_t kCount = 4;

  explicit LoadedQueues(const pipeline::Lsi& lsi) {
    for (uint16_t i = 0; i < kCount; ++i) {
      queues_.push_back(
          {.entry =
               {.io = &port_, .queue = i, .in_port = 1, .lsi = &lsi, .counters = &counters_[i]},
           .port = "loaded",
           .affinity = {}});
    }
  }
  [[nodiscard]] QueueSet all() const { return {.rx = queues_}; }
  /// Each takes this share of a CPU for so many seconds.
  void spend(const std::array<double, kCount>& shares, unsigned seconds) {
    for (size_t i = 0; i < kCount; ++i) {
      const double cycles = shares[i] * seconds * static_cast<double>(rte_get_tsc_hz());
      counters_[i].cycles.add(static_cast<uint64_t>(cycles));
    }
  }

 private:
  class Idle final : public pipeline::PortIo {
    uint16_t rx(uint16_t, std::span<rte_mbuf*>) noexcept override { return 0; }
    uint16_t tx(uint16_t, std::span<rte_mbuf*>) noexcept override { return 0; }
  };
  Idle port_;
  QueueCounters counters_[kCount];
  std::vector<RxQueue> queues_;
};

std::vector<size_t> workers_of(const WorkerPool& pool) {
  std::vector<size_t> workers;
  for (const RxQueue& queue : pool.queues()) workers.push_back(queue.worker.value());
  return workers;
}

TEST_F(WorkerTest, QueuesAreBalancedByTheirLoadsWhenItPays) {
  LoadedQueues loaded(*lsi_);
  start({0, 1});
  WorkerPool& pool = *pool_of_workers_;
  pool.set_queues(loaded.all());
  const std::vector<size_t> spread{0, 1, 0, 1};
  ASSERT_EQ(workers_of(pool), spread);
  const uint64_t second = rte_get_tsc_hz();
  uint64_t now = rte_rdtsc();
  pool.set_auto_load_balance({.enabled = true, .load_threshold = 0});
  const auto minute = [&](const std::array<double, LoadedQueues::kCount>& shares) {
    for (unsigned tens = 0; tens < 7; ++tens) {
      loaded.spend(shares, 10);
      pool.tick(now += 10 * second);
    }
    qsbr_->drain();
  };
  minute({0.5, 0.5, 0.5, 0.5});
  EXPECT_EQ(workers_of(pool), spread) << "equal already";
  minute({0.9, 0.1, 0.9, 0.1});
  const std::vector<size_t> balanced = workers_of(pool);
  EXPECT_NE(balanced[0], balanced[2]) << "the loaded ones are apart";
  EXPECT_NE(balanced[1], balanced[3]);
  pool.set_queues({});
  qsbr_->drain();
}

TEST_F(WorkerTest, AThresholdThatNoWorkerReachesLeavesQueuesWhereTheyAre) {
  LoadedQueues loaded(*lsi_);
  start({0, 1});
  WorkerPool& pool = *pool_of_workers_;
  pool.set_queues(loaded.all());
  const std::vector<size_t> before = workers_of(pool);
  pool.set_auto_load_balance({.enabled = true, .load_threshold = 100});
  uint64_t now = rte_rdtsc();
  for (unsigned tens = 0; tens < 7; ++tens) {
    loaded.spend({0.9, 0, 0.9, 0}, 10);
    pool.tick(now += 10 * rte_get_tsc_hz());
  }
  EXPECT_EQ(workers_of(pool), before);
  pool.rebalance();
  qsbr_->drain();
  EXPECT_NE(workers_of(pool)[0], workers_of(pool)[2]) << "but by command";
  pool.set_queues({});
  qsbr_->drain();
}

TEST_F(WorkerTest, OnlyTheOwnerSendsAndEveryWorkersOrderStays) {
  RingPort device;
  auto port = OwnerTx::make("owner-test", device);
  ASSERT_TRUE(port);
  const auto send = [&](uint16_t worker, uint8_t mark) {
    rte_mbuf* packet = frame(mark);
    ASSERT_EQ((*port)->tx(worker, {&packet, 1}), 1);
  };
  (*port)->set_owner(0);
  send(0, 0);
  EXPECT_EQ(marks(device, 1), std::vector<uint8_t>{0}) << "the owner sends at once";
  for (uint8_t i = 0; i < 40; ++i) send(3, i);
  EXPECT_EQ(device.take(), nullptr) << "others wait for the owner";
  (*port)->drain();
  EXPECT_EQ(marks(device, 40), sequence(40));

  for (uint8_t i = 0; i < 10; ++i) send(3, i);
  (*port)->set_owner(std::nullopt);
  for (uint8_t i = 10; i < 20; ++i) send(3, i);
  EXPECT_EQ(device.take(), nullptr);
  (*port)->set_owner(3);
  for (uint8_t i = 20; i < 30; ++i) send(3, i);
  EXPECT_EQ(marks(device, 30), sequence(30)) << "its own packets of before go first";
  EXPECT_EQ((*port)->dropped(), 0u);
}

TEST_F(WorkerTest, OwnerCountsWhatTheDeviceRefuses) {
  class Full final : public pipeline::PortIo {
    uint16_t rx(uint16_t, std::span<rte_mbuf*>) noexcept override { return 0; }
    uint16_t tx(uint16_t, std::span<rte_mbuf*>) noexcept override { return 0; }
  } device;
  auto port = OwnerTx::make("owner-full", device);
  ASSERT_TRUE(port);
  rte_mbuf* packet = frame(1);
  ASSERT_EQ((*port)->tx(1, {&packet, 1}), 1);
  (*port)->drain();
  EXPECT_EQ((*port)->dropped(), 1u);
}

TEST_F(WorkerTest, AGroupsPortsGoToOneWorkerAndWhatItHandsThemThere) {
  RingPort device;
  auto handed = OwnerTx::make("group-test", device);
  ASSERT_TRUE(handed);
  ASSERT_TRUE(lsi_->add_port({.number = 3, .name = "p3", .io = handed->get()}));
  rule(1, {pipeline::OutputAction{.port = 3}});
  rule(2, {pipeline::OutputAction{.port = 3}});
  start({0, 1});
  QueueCounters counters;
  QueueSet queues{.rx = pool_of_workers_->queues(), .handed = {{handed->get(), &device}}};
  queues.rx.push_back(
      {.entry = {.io = &device, .queue = 0, .in_port = 3, .lsi = lsi_.get(), .counters = &counters},
       .port = "p3",
       .affinity = {},
       .group = &device});
  pool_of_workers_->set_queues(queues);
  size_t plans = 0;
  for (const auto& worker : pool_of_workers_->workers()) plans += worker->plan().handed.size();
  EXPECT_EQ(plans, 1u);
  ports_[0].put(frame(1));
  EXPECT_EQ(marks(device, 1), std::vector<uint8_t>{1});
  ports_[1].put(frame(2));
  EXPECT_EQ(marks(device, 1), std::vector<uint8_t>{2});
  ASSERT_TRUE(lsi_->remove_port(3));
  pool_of_workers_->set_queues({});
  qsbr_->drain();
}

}  // namespace
}  // namespace headrace::runtime
