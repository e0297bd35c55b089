// SPDX-License-Identifier: Apache-2.0
// A DPDK device as a port of the function: probed and configured by open(), one queue each way,
// stopped and removed by the destructor.
//
// A memif client and its like start only once their peer is there; keep_up() tries again, and the
// worker polls a device only from then on.
//
// Thread safety: rx(), tx() by the worker; all else by the control thread.
#pragma once

#include <rte_ethdev.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "vnf/counter.h"
#include "vnf/output.h"
#include "vnf/program_config.h"

namespace headrace::vnf {

class Device {
 public:
  /// Fails with what the device or its configuration lacks, in words.
  static Result<std::unique_ptr<Device>> open(const PortConfig& config, rte_mempool* pool);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// At most packets.size(); 0 before the device has started.
  uint16_t rx(std::span<rte_mbuf*> packets) noexcept {
    if (!started_.load(std::memory_order_acquire)) return 0;
    const uint16_t count =
        rte_eth_rx_burst(id_, 0, packets.data(), static_cast<uint16_t>(packets.size()));
    if (count > 0) count_burst(packets.first(count), rx_packets_, rx_bytes_);
    return count;
  }
  /// Sends a prefix and returns its length.
  uint16_t tx(std::span<rte_mbuf*> packets) noexcept;

  /// Starts the device if it hasn't yet and reads its link, which for some drivers is what accepts
  /// a peer that comes back. Call a few times per second.
  void keep_up();

  [[nodiscard]] const std::string& name() const { return config_.name; }
  [[nodiscard]] const MacAddress& mac() const { return mac_; }
  /// {"rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "tx_dropped", "rx_missed", "link", "mac"}
  [[nodiscard]] Json status() const;

 private:
  Device(PortConfig config, uint16_t id) : config_(std::move(config)), id_(id) {}
  Result<> configure(rte_mempool* pool);
  Result<> start();

  static void count_burst(std::span<rte_mbuf*> packets, Counter& count, Counter& bytes) noexcept {
    uint64_t sum = 0;
    for (const rte_mbuf* packet : packets) sum += packet->pkt_len;
    count.add(packets.size());
    bytes.add(sum);
  }

  PortConfig config_;
  uint16_t id_;
  MacAddress mac_{};
  bool link_up_{false};
  std::atomic<bool> started_{false};
  Counter rx_packets_;
  Counter rx_bytes_;
  Counter tx_packets_;
  Counter tx_bytes_;
  Counter tx_dropped_;
};

}  // namespace headrace::vnf
