// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/worker.h"

#include <rte_cycles.h>
#include <time.h>

#include <algorithm>
#include <future>
#include <type_traits>

#include "base/log.h"
#include "eal/thread.h"

namespace headrace::runtime {

namespace {

/// A number for ring names: a worker may be replaced by one of the same number.
unsigned next_serial() {
  static unsigned serial = 0;
  return serial++;
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::start(unsigned number, unsigned cpu, Qsbr& qsbr,
                                              WakeUp& wake_up) {
  const unsigned serial = next_serial();
  Result<std::unique_ptr<PuntRing>> punts = PuntRing::make(fmt::format("punt-{}", serial), wake_up);
  if (!punts) return tl::unexpected(punts.error());
  Result<std::unique_ptr<PacketOutRing>> packet_outs =
      PacketOutRing::make(fmt::format("pout-{}", serial));
  if (!packet_outs) return tl::unexpected(packet_outs.error());
  std::unique_ptr<Worker> worker(
      new Worker(number, cpu, qsbr, std::move(*punts), std::move(*packet_outs)));

  std::promise<Result<>> pinned;
  std::future<Result<>> ready = pinned.get_future();
  worker->thread_ =
      std::thread([self = worker.get(), number, cpu, pinned = std::move(pinned)]() mutable {
        eal::name_this_thread(fmt::format("worker-{}", number).c_str());
        const Result<> pin = eal::pin_this_thread(cpu);
        pinned.set_value(pin);
        if (pin) self->loop();
      });
  if (const Result<> pin = ready.get(); !pin) return tl::unexpected(pin.error());
  return worker;
}

Worker::Worker(unsigned number, unsigned cpu, Qsbr& qsbr, std::unique_ptr<PuntRing> punts,
               std::unique_ptr<PacketOutRing> packet_outs)
    : cpu_(cpu),
      qsbr_(qsbr),
      punts_(std::move(punts)),
      packet_outs_(std::move(packet_outs)),
      executor_(number, *punts_),
      plan_(new Published({})) {}

Worker::~Worker() {
  stop_.store(true);
  if (thread_.joinable()) thread_.join();
  delete plan_.load();
}

void Worker::set_plan(PollPlan plan) {
  const Published* old = plan_.exchange(new Published(std::move(plan)), std::memory_order_acq_rel);
  qsbr_.defer([old] { delete old; });
}

Worker::Published::Published(PollPlan made)
    : plan(std::move(made)), order(static_cast<uint32_t>(plan.queues.size()), rte_get_tsc_hz()) {}

template <Worker::Timing kTiming>
unsigned Worker::poll(Published& published, uint64_t now) noexcept {
  unsigned received = 0;
  published.order.run(now, [&](uint32_t queue) {
    const unsigned packets = poll_queue<kTiming>(published.plan.queues[queue]);
    received += packets;
    return packets != 0;
  });
  return received;
}

template <Worker::Timing kTiming>
unsigned Worker::poll_queue(const PollEntry& entry) noexcept {
  constexpr bool kStages = kTiming == Timing::stages;
  rte_mbuf* burst[pipeline::kBurst];
  const uint64_t polled = kTiming == Timing::none ? 0 : rte_rdtsc();
  unsigned packets = 0;
  unsigned bursts = 0;
  unsigned full_bursts = 0;
  uint16_t count = 0;
  do {
    const uint64_t begin = kStages ? rte_rdtsc() : 0;
    count = entry.io->rx(entry.queue, burst);
    if (count == 0) break;
    const uint64_t arrived = kStages ? rte_rdtsc() : 0;
    executor_.run(entry.lsi->program(), entry.in_port, {burst, count});
    if constexpr (kStages) {
      counters_.receive_cycles.add(arrived - begin);
      counters_.pipeline_cycles.add(rte_rdtsc() - arrived);
      counters_.staged_packets.add(count);
    }
    packets += count;
    ++bursts;
    full_bursts += count == pipeline::kBurst ? 1 : 0;
  } while (count == pipeline::kBurst && bursts < kBurstsPerPoll);
  if (packets == 0) return 0;
  entry.counters->packets.add(packets);
  entry.counters->bursts.add(bursts);
  entry.counters->full_bursts.add(full_bursts);
  if constexpr (kTiming != Timing::none) {
    entry.counters->cycles.add((rte_rdtsc() - polled) * (kStages ? 1 : kSampledRounds));
  }
  return packets;
}

template <typename Drained>
void Worker::drain(const std::vector<Drained*>& ports, Timing timing) noexcept {
  for (Drained* port : ports) {
    const uint64_t begin = rte_rdtsc();
    if constexpr (std::is_same_v<Drained, PortQueues>) {
      port->drain(static_cast<uint16_t>(number()), begin);
    } else {
      port->drain();
    }
    if (timing == Timing::none) continue;
    port->cycles.add((rte_rdtsc() - begin) * (timing == Timing::stages ? 1 : kSampledRounds));
  }
}

void Worker::nap(uint32_t microseconds) noexcept {
  // A sleeping worker must not delay grace periods.
  qsbr_.go_offline(number());
  const timespec duration{0, static_cast<long>(microseconds) * 1000};
  ::nanosleep(&duration, nullptr);
  qsbr_.go_online(number());
}

void Worker::loop() noexcept {
  const eal::DpdkThread registered;
  if (!registered.registered()) {
    log::warn("worker {}: DPDK has no thread id left; buffers come without a cache", number());
  }
  qsbr_.go_online(number());
  uint32_t sleep_us = 0;
  uint64_t begin = rte_rdtsc();
  while (!stop_.load(std::memory_order_relaxed)) {
    executor_.set_time(begin);
    Published& published = *plan_.load(std::memory_order_acquire);
    const bool timed = stage_timing_.load(std::memory_order_relaxed);
    executor_.set_timing(timed);
    executor_.set_alone(alone_.load(std::memory_order_relaxed));
    const bool sampled = counters_.rounds.read() % kSampledRounds == 0;
    const Timing timing = timed ? Timing::stages : sampled ? Timing::queues : Timing::none;
    const unsigned received = timed     ? poll<Timing::stages>(published, begin)
                              : sampled ? poll<Timing::queues>(published, begin)
                                        : poll<Timing::none>(published, begin);
    const unsigned sent_out = packet_outs_->run(executor_);
    const uint64_t flush_begin = timed ? rte_rdtsc() : 0;
    executor_.flush();
    drain(published.plan.scheduled, timing);
    drain(published.plan.handed, timing);
    if (timed && received > 0) counters_.transmit_cycles.add(rte_rdtsc() - flush_begin);
    packet_outs_->give_back();
    qsbr_.quiescent(number());

    const uint64_t end = rte_rdtsc();
    const bool busy = received > 0 || sent_out > 0;
    (busy ? counters_.busy_cycles : counters_.idle_cycles).add(end - begin);
    counters_.rounds.add(1);
    if (busy) {
      counters_.busy_rounds.add(1);
      counters_.packets.add(received);
      counters_.packet_outs.add(sent_out);
    }
    begin = end;

    // As OVS's pmd-maxsleep: longer by 1 us with every round that brings less than half a burst.
    const uint32_t max_sleep_us = max_sleep_us_.load(std::memory_order_relaxed);
    if (max_sleep_us == 0 || received >= pipeline::kBurst / 2 || sent_out > 0) {
      sleep_us = 0;
      continue;
    }
    sleep_us = std::min(sleep_us + 1, max_sleep_us);
    nap(sleep_us);
    const uint64_t awake = rte_rdtsc();
    counters_.sleep_cycles.add(awake - begin);
    counters_.idle_cycles.add(awake - begin);
    begin = awake;
  }
  qsbr_.go_offline(number());
}

}  // namespace headrace::runtime
