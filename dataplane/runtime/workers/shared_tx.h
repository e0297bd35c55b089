// SPDX-License-Identifier: Apache-2.0
// A port whose device has fewer transmit queues than there may be workers.
//
// A transmit queue has one user: worker w sends on queue w if the device has it; other workers
// enqueue their packets to the owner's ring (multi-producer, single-consumer, lock-free), which the
// owner drains once per round. Order within a worker is preserved, and no worker blocks.
#pragma once

#include <memory>
#include <vector>

#include "base/counter.h"
#include "base/result.h"
#include "pipeline/terms/port_io.h"
#include "runtime/workers/punt_ring.h"

namespace headrace::runtime {

class SharedTx final : public pipeline::PortIo {
 public:
  static constexpr unsigned kCapacity = 1024;

  /// `device` has `queues` transmit queues, and must outlive this. `name` is unique in the process.
  static Result<std::unique_ptr<SharedTx>> make(const std::string& name, pipeline::PortIo& device,
                                                uint16_t queues);
  /// No worker may use it any more; frees what was not sent.
  ~SharedTx() override;

  uint16_t rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    return device_.rx(queue, packets);
  }
  /// `worker` is the worker's number.
  uint16_t tx(uint16_t worker, std::span<rte_mbuf*> packets) noexcept override;

  /// The owner of `queue` sends what others left for it. What the device does not take is dropped
  /// and counted.
  void drain(uint16_t queue) noexcept;

  /// True if packets wait for the owner of `queue`.
  [[nodiscard]] bool has_waiting(uint16_t queue) const {
    return rte_ring_empty(rings_[queue].get()) == 0;
  }
  [[nodiscard]] uint16_t queues() const { return static_cast<uint16_t>(rings_.size()); }
  /// Packets that drain() dropped.
  [[nodiscard]] uint64_t dropped() const;

 private:
  SharedTx(pipeline::PortIo& device, std::vector<Ring> rings);

  pipeline::PortIo& device_;
  std::vector<Ring> rings_;  ///< one per transmit queue
  std::unique_ptr<Counter[]> dropped_;
};

}  // namespace headrace::runtime
