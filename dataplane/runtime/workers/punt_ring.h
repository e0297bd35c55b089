// SPDX-License-Identifier: Apache-2.0
// Packets for the controller on their way from one worker to the control thread: a ring with the
// facts beside each packet, and a wake-up that costs one system call per visit of the control
// thread, however many packets come meanwhile.
#pragma once

#include <rte_ring.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/counter.h"
#include "base/result.h"
#include "pipeline/terms/punt.h"

namespace headrace::runtime {

struct RingFree {
  void operator()(rte_ring* ring) const { rte_ring_free(ring); }
};
using Ring = std::unique_ptr<rte_ring, RingFree>;

/// An eventfd that many workers may raise and the control thread waits for.
class WakeUp {
 public:
  static Result<std::unique_ptr<WakeUp>> make();
  ~WakeUp();
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  /// Any thread: makes fd() readable unless it is already.
  void raise() noexcept;
  /// Control thread, before it reads the rings that raised it.
  void lower() noexcept;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  explicit WakeUp(int fd) : fd_(fd) {}
  int fd_;
  std::atomic<bool> raised_{false};
};

class PuntRing final : public pipeline::PuntQueue {
 public:
  static constexpr unsigned kCapacity = 4096;

  /// `name` is unique in the process; `wake_up` outlives the ring.
  static Result<std::unique_ptr<PuntRing>> make(const std::string& name, WakeUp& wake_up);
  /// Frees what was not read.
  ~PuntRing() override;

  // Worker:
  bool punt(rte_mbuf* packet, const pipeline::PuntInfo& info) noexcept override;

  // Control thread:
  using Take = std::function<void(const pipeline::PuntInfo& info, std::span<const uint8_t> packet)>;
  /// Calls `take` with at most `limit` packets and frees them; returns how many.
  unsigned read(unsigned limit, const Take& take);
  /// Packets refused since the beginning because the ring was full.
  [[nodiscard]] uint64_t refused() const { return refused_.read(); }

 private:
  struct Entry {
    rte_mbuf* packet;
    pipeline::PuntInfo info;
  };
  static_assert(sizeof(Entry) % 4 == 0, "rte_ring copies words");

  PuntRing(Ring ring, WakeUp& wake_up) : ring_(std::move(ring)), wake_up_(wake_up) {}

  Ring ring_;
  WakeUp& wake_up_;
  Counter refused_;
  std::vector<uint8_t> joined_;  ///< read()'s scratch: a packet of several segments
};

}  // namespace headrace::runtime
