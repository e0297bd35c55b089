// SPDX-License-Identifier: Apache-2.0
// The exit of a port whose device does not take what senders left to it (packet/offload.h): there
// checksums are computed and segments are cut.
//
// It stands directly before the device, behind queues and schedulers: those see one packet. While
// no port of the process has delivered such a packet's kind (note_offloads()) it looks at nothing.
//
// A packet of which some segments were sent counts as taken; the others are dropped and counted
// here, as a device's own drops are.
//
// Thread safety: as port_io.h says; note_offloads() by any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "pipeline/terms/port_io.h"
#include "port/port.h"

namespace headrace::port {

class SoftwareOffload final : public pipeline::PortIo {
 public:
  /// What the device does by itself, the port says for each burst. It outlives this.
  explicit SoftwareOffload(Port& port) : port_(port), device_(port.io()) {}

  uint16_t rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    return device_.rx(queue, packets);
  }
  uint16_t tx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    if (!offloads_.load(std::memory_order_relaxed)) return device_.tx(queue, packets);
    return finish(queue, packets);
  }

  /// There is a port, from now on, that delivers packets of which something is left.
  static void note_offloads() noexcept { offloads_.store(true, std::memory_order_relaxed); }

  /// Segments that found no buffer or no room in the device.
  [[nodiscard]] uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  uint16_t finish(uint16_t queue, std::span<rte_mbuf*> packets) noexcept;
  /// Sends a packet's segments and frees it; false: the device took none.
  bool send_segments(uint16_t queue, rte_mbuf* packet) noexcept;

  static inline std::atomic<bool> offloads_{false};

  const Port& port_;
  pipeline::PortIo& device_;
  std::atomic<uint64_t> dropped_{0};
};

}  // namespace headrace::port
