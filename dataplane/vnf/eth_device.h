// SPDX-License-Identifier: Apache-2.0
// A DPDK device (eal/ethdev.h) as a port of the function, with one queue each way.
//
// Some devices can start only once their peer is present: update_link() tries again.
//
// Gaps between polls. A virtio ring lies in memory that two cores write. Who polls it again as soon
// as it has taken what was there reads the very cache line that the other side is about to write,
// which then has to fetch it back: with packed rings for each four packets, since a switch makes
// them visible by four. Each such transfer takes 100 to 400 cycles, of the switch, and bursts stay
// as short as what was copied meanwhile. So a port whose poll brought some packets, but no full
// burst, is not polled again for a microsecond. A packet waits for that long at most; one that
// comes alone does not wait.
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
  uint64_t gap_cycles_{0};
  uint64_t not_before_{0};  ///< the worker's: when it may be polled again, TSC
};

}  // namespace headrace::vnf
