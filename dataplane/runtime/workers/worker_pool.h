// SPDX-License-Identifier: Apache-2.0
// The workers of a switch: how many, where, and which queues each polls.
//
// Worker i runs on the i-th CPU of the list. A new list keeps the workers whose place is the same,
// ends the others and starts what is missing; a new set of queues replaces plans only. What a
// worker counted is lost with it.
//
// Thread safety: control thread only.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/workers/worker.h"

namespace headrace::runtime {

/// A receive queue of some port.
struct RxQueue {
  PollEntry entry;
  std::string port;                  ///< the port's name, for reports
  bool is_first_workers{false};      ///< the first worker must poll it (port/port.h)
  std::optional<unsigned> affinity;  ///< the CPU that must poll it
  std::optional<size_t> worker{};    ///< set by the pool; nothing: not polled
};

class WorkerPool {
 public:
  /// Both must outlive the pool.
  WorkerPool(Qsbr& qsbr, WakeUp& wake_up) : qsbr_(qsbr), wake_up_(wake_up) {}

  /// Runs one worker on each of `cpus`, in ascending order. CPUs that can't be had are left out,
  /// and the error names them; without any that can, the workers stay as they are.
  Result<> set_cpus(std::vector<unsigned> cpus);
  void set_max_sleep(uint32_t microseconds);
  void set_stage_timing(bool on);

  /// What there is to poll. What earlier queues named must stay for one grace period.
  void set_queues(std::vector<RxQueue> queues, std::vector<SharedTx*> shared,
                  std::vector<PortQueues*> scheduled = {});

  [[nodiscard]] std::span<const std::unique_ptr<Worker>> workers() const { return workers_; }
  [[nodiscard]] const std::vector<RxQueue>& queues() const { return queues_; }
  [[nodiscard]] std::vector<unsigned> cpus() const;
  [[nodiscard]] bool stage_timing() const { return stage_timing_; }

 private:
  void publish();

  Qsbr& qsbr_;
  WakeUp& wake_up_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<RxQueue> queues_;
  std::vector<SharedTx*> shared_;
  std::vector<PortQueues*> scheduled_;
  uint32_t max_sleep_us_{0};
  bool stage_timing_{false};
};

}  // namespace headrace::runtime
