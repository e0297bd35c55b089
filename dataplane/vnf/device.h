// SPDX-License-Identifier: Apache-2.0
// A port of the function: a DPDK device (eth_device.h), a memif (memif_device.h) or a port of a
// Headrace switch by shared memory (shm_device.h).
//
// Some have no peer when they are made: update_link() tries to connect again, and until then rx()
// and tx() return 0.
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
  /// `io` runs the control thread, and must outlive the device. The error says what the device or
  /// its configuration lacks.
  static Result<std::unique_ptr<Device>> open(const PortConfig& config, rte_mempool* pool,
                                              asio::io_context& io);
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Receives into a prefix of `packets`, and returns its length. The caller owns
  /// them.
  virtual uint16_t rx(std::span<rte_mbuf*> packets) noexcept = 0;
  /// Sends a prefix and returns its length; the caller keeps the rest.
  virtual uint16_t tx(std::span<rte_mbuf*> packets) noexcept = 0;

  /// Connects to the peer if there is none yet, and updates the link's state. Call a few times per
  /// second, and more often until the first peer is there. Fails if the connection can't be
  /// restored in this process; restart it then.
  virtual Result<> update_link() = 0;

  [[nodiscard]] const std::string& name() const { return config_.name; }
  [[nodiscard]] const MacAddress& mac() const { return mac_; }
  /// As of the last update_link().
  [[nodiscard]] bool is_up() const { return link_up_; }
  /// {"rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "tx_dropped", "rx_missed", "link", "mac"}
  [[nodiscard]] Json status() const;

 protected:
  explicit Device(PortConfig config) : config_(std::move(config)) {}
  /// Packets that the device itself dropped on reception.
  [[nodiscard]] virtual uint64_t missed() const = 0;
  /// Sets the link's state, and logs a change.
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
