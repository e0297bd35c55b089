// SPDX-License-Identifier: Apache-2.0
// A port of the function: a DPDK device (eth_device.h), a memif (memif_device.h) or a port of a
// Headrace switch by shared memory (shm_device.h).
//
// Some have no peer when they are made; keep_up() tries again, and rx() and tx() move nothing until
// it has one.
//
// Thread safety: rx(), tx() by the worker; all else by the control thread.
#pragma once

#include <rte_mbuf.h>

#include <asio/io_context.hpp>
#include <memory>
#include <span>
#include <string>

#include "base/counter.h"
#include "base/result.h"
#include "vnf/program_config.h"

namespace headrace::vnf {

class Device {
 public:
  /// Fails with what the device or its configuration lacks, in words.
  /// `io` runs the control thread, and must outlive the device.
  static Result<std::unique_ptr<Device>> open(const PortConfig& config, rte_mempool* pool,
                                              asio::io_context& io);
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Fills a prefix of `packets`, at most kBurst; its length. The caller owns them.
  virtual uint16_t rx(std::span<rte_mbuf*> packets) noexcept = 0;
  /// Sends a prefix and returns its length.
  virtual uint16_t tx(std::span<rte_mbuf*> packets) noexcept = 0;

  /// Finds a peer if there is none yet, and notes whether there is one. Call a few times per
  /// second. Fails when the peer went for good: a new process may find it again, this one won't.
  virtual Result<> keep_up() = 0;

  [[nodiscard]] const std::string& name() const { return config_.name; }
  [[nodiscard]] const MacAddress& mac() const { return mac_; }
  /// {"rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "tx_dropped", "rx_missed", "link", "mac"}
  [[nodiscard]] Json status() const;

 protected:
  explicit Device(PortConfig config) : config_(std::move(config)) {}
  /// Packets that the device itself could not take in.
  [[nodiscard]] virtual uint64_t missed() const = 0;
  /// Logs a change.
  void note_link(bool up);

  PortConfig config_;
  MacAddress mac_{};
  Counter rx_packets_;
  Counter rx_bytes_;
  Counter tx_packets_;
  Counter tx_bytes_;
  Counter tx_dropped_;

 private:
  bool link_up_{false};
};

}  // namespace headrace::vnf
