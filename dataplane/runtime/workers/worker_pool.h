// SPDX-License-Identifier: Apache-2.0
// The workers of a switch: how many, where, and which queues each polls.
//
// One worker runs on each CPU of a list. A new list keeps the workers whose CPU is still in it,
// with their numbers, ends the others and starts what is missing, with the lowest numbers that are
// free; what an ended worker counted is lost with it.
//
// What is dealt to workers are units: a receive queue, the scheduler of a port, or all that ports
// of one group have (RxQueue::group), which is for one worker at a time. Which worker gets a unit
// is chosen by queue_assignment.h; it changes hands by the OwnershipTable. A new set of queues
// deals out what is new and leaves the rest where it is; other workers, another policy, rebalance()
// and the load balancer deal all anew.
//
// Thread safety: control thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/workers/ownership.h"
#include "runtime/workers/queue_assignment.h"
#include "runtime/workers/queue_load.h"
#include "runtime/workers/tx_queues.h"
#include "runtime/workers/worker.h"

namespace headrace::runtime {

/// A receive queue of some port.
struct RxQueue {
  PollEntry entry;
  std::string port;                  ///< the port's name, for reports
  std::optional<unsigned> affinity;  ///< the CPU that must poll it
  const void* group{nullptr};        ///< what it shares with others (port/port.h); null: nothing
  int node{kAnyNode};                ///< NUMA node of its device
  std::optional<size_t> worker{};    ///< index; set by the pool; nothing: not polled
};

/// A port with queues of its own to send from.
struct ScheduledPort {
  PortQueues* queues;
  const void* group{nullptr};
  int node{kAnyNode};
};

/// A port of a group: its owner sends for others.
struct HandedPort {
  OwnerTx* port;
  const void* group;
};

/// All that there is for workers.
struct QueueSet {
  std::vector<RxQueue> rx;
  std::vector<ScheduledPort> scheduled;
  std::vector<HandedPort> handed;
  std::vector<TxQueues*> tx;
};

/// other_config:pmd-auto-lb and what belongs to it, with OVS's defaults.
struct AutoLoadBalance {
  bool enabled{false};
  uint32_t interval_minutes{1};        ///< between two attempts
  uint32_t load_threshold{95};         ///< percent of a worker's time
  uint32_t improvement_threshold{25};  ///< percent of the variance
  bool operator==(const AutoLoadBalance&) const = default;
};

class WorkerPool {
 public:
  /// Both must outlive the pool.
  WorkerPool(Qsbr& qsbr, WakeUp& wake_up);

  /// Runs one worker on each of `cpus`; a CPU that is named twice gets two. CPUs that can't be had
  /// are left out, and the error names them; without any that can, the workers stay as they are.
  /// Waits until the workers that end have completed their round.
  Result<> set_cpus(std::vector<unsigned> cpus);
  void set_max_sleep(uint32_t microseconds);
  void set_stage_timing(bool on);
  void set_policy(AssignPolicy policy);
  void set_auto_load_balance(const AutoLoadBalance& config) { auto_lb_ = config; }

  /// What there is to poll and to send. What earlier sets named must stay for one grace period.
  void set_queues(QueueSet queues);
  /// Deals all anew by what was measured.
  void rebalance() { deal(/*keep=*/false); }
  /// Measures loads, and balances them if it is time to; `now` is the TSC. A few times per minute
  /// at least.
  void tick(uint64_t now);

  [[nodiscard]] std::span<const std::unique_ptr<Worker>> workers() const { return workers_; }
  [[nodiscard]] const std::vector<RxQueue>& queues() const { return queues_.rx; }
  /// By worker.
  [[nodiscard]] std::vector<unsigned> cpus() const;
  [[nodiscard]] bool stage_timing() const { return stage_timing_; }
  [[nodiscard]] AssignPolicy policy() const { return policy_; }
  /// Another number whenever the workers have changed.
  [[nodiscard]] uint64_t generation() const { return generation_; }
  /// Share of a CPU that the unit of `queue` has taken over the last minute.
  [[nodiscard]] double load(const RxQueue& queue) const;
  /// Share of its time that the worker of this index was busy, over the last minute.
  [[nodiscard]] double busy_share(size_t worker) const;

 private:
  /// What is dealt as one.
  struct Unit {
    QueueDemand demand;
    std::optional<unsigned> worker{};  ///< the number of the one that has it, or is to have it
    QueueLoad history;
    uint64_t cycles{0};  ///< spent on it so far
  };
  static Owned unit_of(const RxQueue& queue);
  static Owned unit_of(const ScheduledPort& port);
  void measure(uint64_t now);
  void collect_units();
  /// The demands of all units in order_, with their loads and the indices of their workers.
  [[nodiscard]] std::vector<QueueDemand> demands(uint64_t now) const;
  [[nodiscard]] std::vector<WorkerPlace> places() const;
  [[nodiscard]] std::optional<size_t> index_of(std::optional<unsigned> number) const;
  [[nodiscard]] std::vector<unsigned> numbers() const;
  /// Has queues and meters be shared by these workers, or be one's alone; true if something was not
  /// shared before: a further worker may then start a grace period later.
  bool share_among(const std::vector<unsigned>& numbers);
  void balance(uint64_t now);
  void deal(bool keep);
  void publish();

  Qsbr& qsbr_;
  WakeUp& wake_up_;
  OwnershipTable owners_;
  std::vector<std::unique_ptr<Worker>> workers_;  ///< by CPU, then by number
  std::map<unsigned, QueueLoad> busy_;            ///< of workers, by number
  QueueSet queues_;
  std::map<Owned, Unit> units_;
  std::vector<Owned> order_;  ///< of units, as the queues are
  AssignPolicy policy_{AssignPolicy::cycles};
  AutoLoadBalance auto_lb_;
  uint64_t balanced_at_{0};  ///< TSC of the last attempt
  uint64_t generation_{0};
  uint32_t max_sleep_us_{0};
  bool stage_timing_{false};
};

}  // namespace headrace::runtime
