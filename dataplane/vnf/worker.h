// SPDX-License-Identifier: Apache-2.0
// The thread that polls the ports and runs the function.
//
// A round: the function processes a burst from each port; its tick() runs; transmit buffers are
// flushed. Rounds that handled packets are busy, others idle. The time after an idle round (none, a
// yield, a sleep) is counted separately, since other threads had the CPU meanwhile.
//
// Thread safety: only the control thread calls methods; the thread inside accesses only atomics and
// its own members.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/counter.h"
#include "vnf/device.h"
#include "vnf/function.h"
#include "vnf/output.h"
#include "vnf/program_config.h"

namespace headrace::vnf {

class Worker {
 public:
  struct Options {
    unsigned cpu{0};
    Idle idle{Idle::yield};
    std::chrono::microseconds sleep{50};  ///< the longest sleep
    uint16_t burst{kDefaultRxBurst};      ///< packets per poll of a port, at most kMaxRxBurst
  };

  /// `devices` must outlive the worker.
  Worker(std::span<const std::unique_ptr<Device>> devices, std::unique_ptr<Function> function,
         Options options);
  /// Stops the thread.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Starts the thread. Fails if it can't run on its CPU.
  Result<> start();
  void stop();
  /// Replaces the function between two rounds and returns when that is done. The new one takes over
  /// the state.
  void replace(std::unique_ptr<Function> function);

  /// {"busy_cycles", "idle_cycles", "yielded_cycles", "packets", "polls", "busy_polls", "bursts",
  /// "full_bursts", "refused", "tsc_hz", "cpu_ns"}. Cycles are TSC cycles; a poll is a round over
  /// all ports, a burst what one port brought in it; full ones have `burst` packets: more may have
  /// waited. `refused` are packets that a port did not take. cpu_ns is the CPU time of the thread,
  /// which excludes other threads on a shared CPU.
  [[nodiscard]] Json cycles() const;
  /// {"drops": {reason: packets}, "function": {...}}; reasons that never occurred are left out.
  [[nodiscard]] Json counters() const;

 private:
  /// The first sleep of Idle::sleep; each further one is twice as long, up to Options::sleep.
  static constexpr std::chrono::microseconds kFirstSleep{10};

  class DeviceOutput;

  void run();
  uint64_t round(uint64_t now);
  void wait_idle();
  void take_replacement();

  std::span<const std::unique_ptr<Device>> devices_;
  Options options_;
  std::unique_ptr<DeviceOutput> output_;
  std::unique_ptr<Function> function_;  ///< accessed by the control thread
  Function* current_;                   ///< accessed by the worker
  std::atomic<Function*> replacement_{nullptr};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
  unsigned idle_rounds_{0};
  std::chrono::microseconds next_sleep_{kFirstSleep};
  Counter busy_cycles_;
  Counter idle_cycles_;
  Counter yielded_cycles_;
  Counter packets_;
  Counter polls_;
  Counter busy_polls_;
  Counter bursts_;
  Counter full_bursts_;
};

}  // namespace headrace::vnf
