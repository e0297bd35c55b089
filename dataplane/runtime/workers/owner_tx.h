// SPDX-License-Identifier: Apache-2.0
// A port on which one worker alone may send: the owner of what it shares with other ports, as the
// rings and buffers of a shared-memory group.
//
// The owner sends at once. Other workers put their packets into a ring (many producers, one
// consumer, no lock), which the owner empties in each round, and before it sends anything of its
// own: so a worker's packets stay in order also when it becomes the owner. While there is no owner
// (ownership.h: between the two phases of a hand-over) packets wait in the ring.
//
// Thread safety: tx() by any worker, drain() and rx() by the owner, set_owner() and readings by the
// control thread.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/counter.h"
#include "base/result.h"
#include "pipeline/terms/port_io.h"
#include "runtime/workers/punt_ring.h"

namespace headrace::runtime {

class OwnerTx final : public pipeline::PortIo {
 public:
  static constexpr unsigned kCapacity = 1024;

  /// `device` has one transmit queue, and must outlive this. `name` is unique in the process.
  static Result<std::unique_ptr<OwnerTx>> make(const std::string& name, pipeline::PortIo& device);
  /// No worker may use it any more; frees what was not sent.
  ~OwnerTx() override;

  uint16_t rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    return device_.rx(queue, packets);
  }
  /// `worker` is the worker's number.
  uint16_t tx(uint16_t worker, std::span<rte_mbuf*> packets) noexcept override;

  /// The owner sends what others left, as much as was there at the call. What the device does not
  /// take is dropped and counted.
  void drain() noexcept;

  /// Nothing: nobody sends. A new owner only a grace period after the old one was withdrawn.
  void set_owner(std::optional<unsigned> worker) {
    owner_.store(worker.value_or(kNobody), std::memory_order_release);
  }
  /// Packets that drain() dropped.
  [[nodiscard]] uint64_t dropped() const { return dropped_.read(); }
  /// TSC cycles that drain() took; the owner's to add to.
  Counter cycles;

 private:
  static constexpr unsigned kNobody = ~0u;

  OwnerTx(pipeline::PortIo& device, Ring ring) : device_(device), ring_(std::move(ring)) {}

  pipeline::PortIo& device_;
  Ring ring_;
  std::atomic<unsigned> owner_{kNobody};
  Counter dropped_;
};

}  // namespace headrace::runtime
