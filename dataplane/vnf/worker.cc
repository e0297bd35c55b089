// SPDX-License-Identifier: Apache-2.0
#include "vnf/worker.h"

#include <pthread.h>
#include <rte_cycles.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <future>

#include "eal/thread.h"

namespace headrace::vnf {
namespace {

/// Empty rounds before Idle::sleep sleeps, so that short gaps between bursts cost no sleep.
constexpr unsigned kRoundsBeforeSleep = 256;

/// CPU time of a thread, in ns; 0 if it has ended.
uint64_t cpu_time(pthread_t thread) {
  clockid_t clock{};
  timespec time{};
  if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

class Worker::DeviceOutput final : public Output {
 public:
  explicit DeviceOutput(std::span<const std::unique_ptr<Device>> devices)
      : Output(devices.size()), devices_(devices) {}

 private:
  uint16_t transmit(uint16_t port, std::span<rte_mbuf*> packets) noexcept override {
    return devices_[port]->tx(packets);
  }
  std::span<const std::unique_ptr<Device>> devices_;
};

Worker::Worker(std::span<const std::unique_ptr<Device>> devices, std::unique_ptr<Function> function,
               Options options)
    : devices_(devices),
      options_(options),
      output_(std::make_unique<DeviceOutput>(devices)),
      function_(std::move(function)),
      current_(function_.get()) {}

Worker::~Worker() {
  stop();
}

Result<> Worker::start() {
  std::promise<Result<>> pinned;
  auto outcome = pinned.get_future();
  thread_ = std::thread([this, &pinned] {
    eal::name_this_thread("vnf-worker");
    const auto result = eal::pin_this_thread(options_.cpu);
    const bool ok = result.has_value();
    pinned.set_value(result);
    if (ok) run();
  });
  auto result = outcome.get();
  if (!result) thread_.join();
  return result;
}

void Worker::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

void Worker::replace(std::unique_ptr<Function> function) {
  replacement_.store(function.get(), std::memory_order_release);
  if (!thread_.joinable()) take_replacement();
  while (replacement_.load(std::memory_order_acquire) != nullptr) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  function_ = std::move(function);
}

void Worker::take_replacement() {
  Function* next = replacement_.load(std::memory_order_acquire);
  if (next == nullptr) return;
  next->migrate_state(*current_);
  current_ = next;
  replacement_.store(nullptr, std::memory_order_release);
}

uint64_t Worker::round(uint64_t now) {
  uint64_t handled = 0;
  std::array<rte_mbuf*, kMaxRxBurst> buffer;
  const std::span packets = std::span(buffer).first(options_.burst);
  for (uint16_t port = 0; port < devices_.size(); ++port) {
    const uint16_t count = devices_[port]->rx(packets);
    if (count == 0) continue;
    bursts_.add(1);
    if (count == options_.burst) full_bursts_.add(1);
    current_->process(port, {packets.data(), count}, now, *output_);
    handled += count;
  }
  handled += current_->tick(now, *output_);
  output_->flush_all();
  return handled;
}

void Worker::wait_idle() {
  switch (options_.idle) {
    case Idle::poll:
      break;
    case Idle::yield:
      sched_yield();
      break;
    case Idle::sleep:
      if (++idle_rounds_ < kRoundsBeforeSleep) break;
      std::this_thread::sleep_for(std::min(next_sleep_, options_.sleep));
      next_sleep_ = std::min(2 * next_sleep_, options_.sleep);
      break;
  }
}

void Worker::run() {
  const eal::DpdkThread registration;
  uint64_t now = rte_rdtsc();
  while (!stopping_.load(std::memory_order_relaxed)) {
    take_replacement();
    const uint64_t handled = round(now);
    const uint64_t done = rte_rdtsc();
    polls_.add(1);
    if (handled > 0) {
      busy_polls_.add(1);
      packets_.add(handled);
      busy_cycles_.add(done - now);
      idle_rounds_ = 0;
      next_sleep_ = kFirstSleep;
      now = done;
      continue;
    }
    idle_cycles_.add(done - now);
    wait_idle();
    now = rte_rdtsc();
    yielded_cycles_.add(now - done);
  }
}

Json Worker::cycles() const {
  auto* thread = const_cast<std::thread*>(&thread_);
  return {{"busy_cycles", busy_cycles_.read()},
          {"idle_cycles", idle_cycles_.read()},
          {"yielded_cycles", yielded_cycles_.read()},
          {"packets", packets_.read()},
          {"polls", polls_.read()},
          {"busy_polls", busy_polls_.read()},
          {"bursts", bursts_.read()},
          {"full_bursts", full_bursts_.read()},
          {"refused", output_->drops(DropReason::tx_queue_full)},
          {"tsc_hz", rte_get_tsc_hz()},
          {"cpu_ns", thread->joinable() ? cpu_time(thread->native_handle()) : 0}};
}

Json Worker::counters() const {
  Json drops = Json::object();
  for (size_t i = 0; i < kDropReasons; ++i) {
    if (const uint64_t count = output_->drops(static_cast<DropReason>(i)); count > 0) {
      drops[std::string(kDropReasonNames[i])] = count;
    }
  }
  return {{"drops", std::move(drops)}, {"function", function_->counters()}};
}

}  // namespace headrace::vnf
