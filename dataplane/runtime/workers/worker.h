// SPDX-License-Identifier: Apache-2.0
// A worker: a pinned thread that polls receive queues and runs what they bring through the LSIs.
//
// One round: poll the queues of the plan that are due (poll_order.h) and run each burst to its end,
// kBurstsPerPoll of a queue at most, and after a burst that was not full the next queue; run
// packet-outs; flush the transmit buffers; report a quiescent state. What to poll is a PollPlan
// that the control thread replaces at any time: the next round uses the new one. Neither thread
// blocks on the other. What is in a plan is this worker's alone (ownership.h).
//
// Cycles: a round in which something arrived is busy, any other is idle; one time stamp per round
// divides them, so that busy + idle is all of the worker's time.
//
// Thread safety: all methods are the control thread's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.h"
#include "pipeline/control/lsi.h"
#include "pipeline/execute/executor.h"
#include "pipeline/terms/port_io.h"
#include "runtime/workers/counters.h"
#include "runtime/workers/owner_tx.h"
#include "runtime/workers/packet_out_ring.h"
#include "runtime/workers/poll_order.h"
#include "runtime/workers/port_queues.h"
#include "runtime/workers/punt_ring.h"
#include "runtime/workers/qsbr.h"

namespace headrace::runtime {

/// Full bursts that a worker takes from one queue before it looks at the next: what a round costs
/// besides is then shared by up to 128 packets, and no queue waits for more of each of the others.
inline constexpr unsigned kBurstsPerPoll = 4;

/// One receive queue to poll, and where its packets go.
struct PollEntry {
  pipeline::PortIo* io;
  uint16_t queue;
  pipeline::PortNo in_port;
  const pipeline::Lsi* lsi;
  QueueCounters* counters;
  bool operator==(const PollEntry&) const = default;
};

/// All that a worker does in a round.
struct PollPlan {
  std::vector<PollEntry> queues;
  std::vector<OwnerTx*> handed;        ///< ports on which it sends what others hand it
  std::vector<PortQueues*> scheduled;  ///< ports whose queues it empties
  bool operator==(const PollPlan&) const = default;
};

class Worker {
 public:
  /// Starts the thread, polling nothing yet. `number` is the executor's; no two workers that exist
  /// at once share it. `qsbr` and `wake_up` outlive the worker.
  static Result<std::unique_ptr<Worker>> start(unsigned number, unsigned cpu, Qsbr& qsbr,
                                               WakeUp& wake_up);
  /// Ends the thread after its round, and waits for that.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// What to poll from the next round on. What the old plan names must stay until the grace period
  /// that begins now is over.
  void set_plan(PollPlan plan);

  /// Sleep when idle, at most this long at a time (other_config:pmd-maxsleep); 0: never.
  void set_max_sleep(uint32_t microseconds) { max_sleep_us_.store(microseconds); }
  /// There is no other worker (Executor::set_alone()); from the next round on.
  void set_alone(bool alone) { alone_.store(alone); }
  [[nodiscard]] bool is_alone() const { return alone_.load(); }
  /// Measure the cycles of stages and tables too; costs a few time stamps per burst.
  void set_stage_timing(bool on) { stage_timing_.store(on); }

  [[nodiscard]] unsigned number() const { return executor_.worker(); }
  [[nodiscard]] unsigned cpu() const { return cpu_; }
  [[nodiscard]] const WorkerCounters& counters() const { return counters_; }
  [[nodiscard]] const PollPlan& plan() const { return plan_.load()->plan; }
  [[nodiscard]] PuntRing& punts() { return *punts_; }
  [[nodiscard]] PacketOutRing& packet_outs() { return *packet_outs_; }

 private:
  Worker(unsigned number, unsigned cpu, Qsbr& qsbr, std::unique_ptr<PuntRing> punts,
         std::unique_ptr<PacketOutRing> packet_outs);
  /// A plan, and the worker's own notes on it.
  struct Published {
    explicit Published(PollPlan made);
    PollPlan plan;
    PollOrder order;
  };
  void loop() noexcept;
  /// What is timed in a round.
  enum class Timing : uint8_t { none, queues, stages };
  template <Timing kTiming>
  unsigned poll(Published& published, uint64_t now) noexcept;
  template <Timing kTiming>
  unsigned poll_queue(const PollEntry& entry) noexcept;
  template <typename Drained>
  void drain(const std::vector<Drained*>& ports, Timing timing) noexcept;
  void nap(uint32_t microseconds) noexcept;

  unsigned cpu_;
  Qsbr& qsbr_;
  std::unique_ptr<PuntRing> punts_;
  std::unique_ptr<PacketOutRing> packet_outs_;
  pipeline::Executor executor_;
  std::atomic<Published*> plan_;
  std::atomic<uint32_t> max_sleep_us_{0};
  std::atomic<bool> stage_timing_{false};
  std::atomic<bool> alone_{false};
  std::atomic<bool> stop_{false};
  WorkerCounters counters_;
  std::thread thread_;
};

}  // namespace headrace::runtime
