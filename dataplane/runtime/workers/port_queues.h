// SPDX-License-Identifier: Apache-2.0
// The queues of a port, and the scheduler that empties them: OVSDB's QoS and Queue tables, chosen
// by OpenFlow's set_queue.
//
// Workers put packets into a queue's ring (many producers, no lock); the scheduler's owner
// (ownership.h), one worker, takes them out once per round and sends them. What it may send:
//
// * no more than the port's maximum rate, over all queues;
// * of a queue no more than the queue's maximum rate;
// * first the queues' minimum rates, then the rest: the lowest priority number first, equal ones in
//   proportion to their minimum rates (weighted fair queueing by virtual time).
//
// A rate is enforced by virtual scheduling (GCRA), like a meter's: one number, the time at which
// all that was sent would have left at that rate; sending is allowed while that is no more than the
// burst ahead of now. A packet that finds its queue full, or for which its port has too many
// buffers waiting already (backlog.h), is dropped there and counted as the queue's.
//
// Thread safety: tx() by any worker, drain() by the owner, readings by the control thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/counter.h"
#include "base/result.h"
#include "pipeline/terms/port_io.h"
#include "pipeline/terms/qos_config.h"
#include "runtime/workers/backlog.h"
#include "runtime/workers/punt_ring.h"

namespace headrace::runtime {

/// A rate that may not be exceeded over longer than a burst. Times are TSC cycles.
class RateLimit {
 public:
  /// Zero bits per second: no limit.
  RateLimit(uint64_t bits_per_second, uint64_t burst_bits, uint64_t hz);
  [[nodiscard]] bool is_set() const { return cycles_per_byte_ > 0; }
  [[nodiscard]] bool allows(uint64_t now) const { return !is_set() || sent_until_ <= now + burst_; }
  void charge(uint64_t now, uint32_t bytes);

 private:
  double cycles_per_byte_{0};
  uint64_t burst_{0};
  uint64_t sent_until_{0};
};

class PortQueues final : public pipeline::PortIo {
 public:
  static constexpr unsigned kCapacity = 1024;  ///< packets per queue

  /// What one queue has sent and lost.
  struct Counts {
    uint32_t id;
    uint64_t packets;
    uint64_t bytes;
    uint64_t errors;
  };

  /// `io` takes what is sent, and with `backlog` must outlive this. `name` is unique in the
  /// process; `hz` is the TSC's. Queue 0 is there even if `qos` has none, for packets without
  /// set_queue or with an unknown one.
  static Result<std::unique_ptr<PortQueues>> make(const std::string& name, pipeline::PortIo& io,
                                                  const pipeline::QosConfig& qos, uint64_t hz,
                                                  Backlog& backlog);
  /// No worker may use it any more; frees what was not sent.
  ~PortQueues() override;

  uint16_t rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    return io_.rx(queue, packets);
  }
  /// Accepts all packets; those that find their queue full are dropped and counted.
  uint16_t tx(uint16_t worker, std::span<rte_mbuf*> packets) noexcept override;

  /// The owner, worker `worker`, sends what may be sent at `now` (TSC).
  void drain(uint16_t worker, uint64_t now) noexcept;

  /// Moves what waits here to `successor`. No worker may use this one any more.
  void hand_over(PortQueues& successor) noexcept;

  /// By id.
  [[nodiscard]] std::vector<Counts> counts() const;
  /// Packets that found their queue full.
  [[nodiscard]] uint64_t dropped() const;
  /// TSC cycles that drain() took; the owner's to add to.
  Counter cycles;

 private:
  struct Queue {
    pipeline::QueueConfig spec;
    Ring ring;
    RateLimit least;
    RateLimit most;
    double weight{1};
    double virtual_time{0};
    bool active{false};
    std::array<rte_mbuf*, pipeline::kBurst> head{};  ///< out of the ring, not sent yet
    unsigned head_at{0};
    unsigned head_count{0};
    Counter packets;
    Counter bytes;
    std::atomic<uint64_t> errors{0};
  };

  PortQueues(pipeline::PortIo& io, uint64_t max_rate_bps, uint64_t hz, Backlog& backlog);
  [[nodiscard]] Queue& queue_for(const rte_mbuf& packet) noexcept;
  /// The queue to send from next; null: none may now.
  Queue* choose(uint64_t now) noexcept;
  static bool refill(Queue& queue) noexcept;
  /// These packets do not wait here any more.
  void left(std::span<rte_mbuf* const> packets) noexcept;

  pipeline::PortIo& io_;
  Backlog& backlog_;
  std::atomic<uint32_t> waiting_{0};  ///< packets in all rings and heads
  RateLimit limit_;
  std::vector<std::unique_ptr<Queue>> queues_;  ///< by id; the first is queue 0
  double virtual_now_{0};
  std::array<rte_mbuf*, pipeline::kBurst> unsent_{};  ///< chosen, but the device was full
  unsigned unsent_count_{0};
};

}  // namespace headrace::runtime
