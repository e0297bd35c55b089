// SPDX-License-Identifier: Apache-2.0
// The queues of one output port, and its rate limit.
//
// Queues: DPDK's rte_sched with one subport and one pipe. Twelve strict priorities, 0 the highest,
// each with a queue; below them four queues that share the remaining rate by weight.
//
// Rate: a token bucket in this class. rte_sched (22.11) advances its time in 32-bit steps and
// doesn't limit until it has caught up with the TSC: after a pause of some milliseconds it sends
// without any limit. So it is configured with a rate that never limits, and only chooses the next
// queue. The bucket counts the 24 octets that Ethernet adds to a frame (preamble, delimiter, FCS,
// gap), and holds the octets of a millisecond, or two frames of 1538 octets if that is more.
//
// Thread safety: none; used by the worker only.
#pragma once

#include <rte_sched.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"

namespace headrace::vnf {

/// A packet's place in the scheduler.
struct SchedulerQueue {
  static constexpr uint8_t kPriorities = RTE_SCHED_TRAFFIC_CLASS_BE;  ///< 12
  static constexpr uint8_t kWeighted = RTE_SCHED_BE_QUEUES_PER_PIPE;  ///< 4
  uint8_t traffic_class{RTE_SCHED_TRAFFIC_CLASS_BE};
  uint8_t queue{0};  ///< of the weighted ones
};

struct SchedulerOptions {
  uint64_t rate_bps{0};       ///< bits per second
  uint16_t queue_packets{0};  ///< per queue, a power of two
  std::array<uint8_t, SchedulerQueue::kWeighted> weights{};
  bool operator==(const SchedulerOptions&) const = default;
};

class Scheduler {
 public:
  /// `tsc_hz` is the rate of the clock of dequeue()'s `now`.
  static Result<Scheduler> make(const SchedulerOptions& options, uint64_t tsc_hz);

  /// Queues packets that mark() has classified and frees those that don't fit. Returns how many
  /// were queued.
  uint32_t enqueue(std::span<rte_mbuf*> packets) noexcept;
  /// Sets a packet's queue.
  void mark(rte_mbuf* packet, SchedulerQueue queue) noexcept {
    rte_sched_port_pkt_write(port_.get(), packet, 0, 0, queue.traffic_class, queue.queue,
                             RTE_COLOR_GREEN);
  }
  /// Removes the packets that may be sent at `now`; returns how many.
  uint32_t dequeue(uint64_t now, std::span<rte_mbuf*> packets) noexcept;
  /// Packets queued.
  [[nodiscard]] uint64_t size() const noexcept { return size_; }

 private:
  struct Free {
    void operator()(rte_sched_port* port) const { rte_sched_port_free(port); }
  };
  Scheduler(rte_sched_port* port, double bytes_per_cycle, double burst)
      : port_(port), bytes_per_cycle_(bytes_per_cycle), burst_(burst), credit_(burst) {}
  void refill(uint64_t now) noexcept;

  std::unique_ptr<rte_sched_port, Free> port_;
  double bytes_per_cycle_;
  double burst_;   ///< octets that the bucket holds
  double credit_;  ///< octets; below 0 after a frame larger than the remaining tokens
  uint64_t last_{0};
  uint64_t size_{0};
};

}  // namespace headrace::vnf
