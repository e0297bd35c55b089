// SPDX-License-Identifier: Apache-2.0
// A DPDK device (eal/ethdev.h) as a port of the function, with one queue each way.
//
// Some devices can start only once their peer is present: update_link() tries again.
#pragma once

#include <atomic>
#include <memory>

#include "eal/ethdev.h"
#include "vnf/device.h"

namespace headrace::vnf {

class EthDevice final : public Device {
 public:
  /// As Device::open().
  static Result<std::unique_ptr<Device>> open(const PortConfig& config, rte_mempool* pool);

  uint16_t rx(std::span<rte_mbuf*> packets) noexcept override;
  uint16_t tx(std::span<rte_mbuf*> packets) noexcept override;
  /// Starts the device if it has not started; reads the link's state, with which some drivers
  /// accept a reconnecting peer. Never fails.
  Result<> update_link() override;

 private:
  EthDevice(const PortConfig& config, std::unique_ptr<eal::Ethdev> ethdev)
      : Device(config), ethdev_(std::move(ethdev)) {}
  Result<> configure(rte_mempool* pool);
  Result<> start();
  [[nodiscard]] uint64_t missed() const override;

  std::unique_ptr<eal::Ethdev> ethdev_;
  std::atomic<bool> started_{false};
};

}  // namespace headrace::vnf
