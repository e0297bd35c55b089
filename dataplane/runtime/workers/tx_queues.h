// SPDX-License-Identifier: Apache-2.0
// The transmit queues of a device, for workers that send what they have themselves.
//
// Worker w sends on queue w % n. Where the device has a queue for each worker that is all; a queue
// to which several workers map has a lock, which is held for one burst to the driver (as in OVS's
// XPS). The lock is taken only where the queue is shared at present: a worker that has its queue to
// itself reads a flag in a line that nobody writes. A worker's packets leave in the order in which
// it sends them.
//
// Whether a queue is shared depends on the workers that there are, and is set by set_workers(): a
// second worker may send on a queue only a grace period after it was locked. A new object locks all
// queues.
//
// Thread safety: rx() and tx() by workers, each with its own number; set_workers() by the control
// thread.
#pragma once

#include <rte_common.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "pipeline/terms/port_io.h"

namespace headrace::runtime {

class TxQueues final : public pipeline::PortIo {
 public:
  /// `device` has `queues` (at least one) transmit queues, and must outlive this.
  TxQueues(pipeline::PortIo& device, uint16_t queues);

  uint16_t rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    return device_.rx(queue, packets);
  }
  /// `worker` is the worker's number.
  uint16_t tx(uint16_t worker, std::span<rte_mbuf*> packets) noexcept override;

  /// Locks the queues to which more than one of these workers map; true if one was not locked
  /// before. Workers that are not named may not send any more, or not before a grace period is
  /// over.
  bool set_workers(std::span<const unsigned> numbers);

  [[nodiscard]] uint16_t queues() const { return queues_; }
  [[nodiscard]] bool is_shared(uint16_t queue) const { return states_[queue].shared.load(); }

 private:
  /// Apart from the lock: who has a queue to itself reads the flag only.
  struct alignas(RTE_CACHE_LINE_SIZE) State {
    std::atomic<bool> shared{true};
    alignas(RTE_CACHE_LINE_SIZE) std::atomic<bool> locked{false};
  };

  pipeline::PortIo& device_;
  uint16_t queues_;
  std::unique_ptr<State[]> states_;
};

}  // namespace headrace::runtime
