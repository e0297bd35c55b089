// SPDX-License-Identifier: Apache-2.0
// A DPDK device as a port of the function: probed and configured by open(), one queue each way,
// stopped and removed by the destructor.
//
// Some devices start only once their peer is there: keep_up() tries again.
#pragma once

#include <rte_ethdev.h>

#include <atomic>

#include "vnf/device.h"

namespace headrace::vnf {

class EthDevice final : public Device {
 public:
  /// As Device::open().
  static Result<std::unique_ptr<Device>> open(const PortConfig& config, rte_mempool* pool);
  ~EthDevice() override;

  uint16_t rx(std::span<rte_mbuf*> packets) noexcept override;
  uint16_t tx(std::span<rte_mbuf*> packets) noexcept override;
  /// Reading the link is what for some drivers accepts a peer that comes back. Never fails.
  Result<> keep_up() override;

 private:
  EthDevice(const PortConfig& config, uint16_t id) : Device(config), id_(id) {}
  Result<> configure(rte_mempool* pool);
  Result<> start();
  [[nodiscard]] uint64_t missed() const override;

  uint16_t id_;
  std::atomic<bool> started_{false};
};

}  // namespace headrace::vnf
