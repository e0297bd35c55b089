// SPDX-License-Identifier: Apache-2.0
// A DPDK Ethernet device (eal/ethdev.h) as a Port of the switch.
#pragma once

#include <rte_ethdev.h>

#include <atomic>
#include <memory>
#include <string>

#include "eal/ethdev.h"
#include "port/port.h"

namespace headrace::port {

/// The device that a kind of port needs; the kinds' files fill it from the options.
struct EthdevRequest {
  std::string devargs;             ///< for rte_dev_probe(): "net_null0,size=64" or a PCI address
  uint16_t rx_queues{1};           ///< options:n_rxq
  uint16_t tx_queues{1};           ///< at least; more if the device has one per worker
  bool tx_queue_per_worker{true};  ///< false: as many as receive queues
  uint16_t rx_descriptors{1024};
  uint16_t tx_descriptors{1024};
  std::string kernel_interface;  ///< for ifindex(); "" = none
  StringMap status;              ///< the kind's own facts
};

/// The bare data path: the PMD's burst functions; nothing moves before open() is called.
class EthdevIo final : public pipeline::PortIo {
 public:
  explicit EthdevIo(uint16_t port_id) : port_id_(port_id) {}
  uint16_t rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    if (!started_.load(std::memory_order_acquire)) return 0;
    return rte_eth_rx_burst(port_id_, queue, packets.data(), static_cast<uint16_t>(packets.size()));
  }
  uint16_t tx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    if (!started_.load(std::memory_order_acquire)) return 0;
    const uint16_t count =
        copies_ != nullptr ? joined(packets) : static_cast<uint16_t>(packets.size());
    return rte_eth_tx_burst(port_id_, queue, packets.data(), count);
  }
  /// The device has started (DPDK's own functions may not be called on one that has not).
  void open() noexcept { started_.store(true, std::memory_order_release); }

  /// Chained packets with memory that isn't DPDK's are copied into buffers of this pool before the
  /// device gets them: it takes no chains, or can't read that memory by DMA. Before open().
  void copy_external_chains(rte_mempool* pool) noexcept { copies_ = pool; }

 private:
  /// Replaces packets by copies where that is needed; how many in front the device can take.
  uint16_t joined(std::span<rte_mbuf*> packets) const noexcept;

  uint16_t port_id_;
  rte_mempool* copies_{nullptr};
  std::atomic<bool> started_{false};
};

class EthdevPort final : public Port {
 public:
  static Result<std::unique_ptr<Port>> open(const PortConfig& config, EthdevRequest request);
  ~EthdevPort() override;
  EthdevPort(const EthdevPort&) = delete;
  EthdevPort& operator=(const EthdevPort&) = delete;

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] pipeline::PortIo& io() override { return io_; }
  [[nodiscard]] uint16_t n_rx_queues() const override { return device_->options().rx_queues; }
  [[nodiscard]] uint16_t n_tx_queues() const override { return device_->options().tx_queues; }
  [[nodiscard]] int numa_node() const override;
  LinkState link() override;
  [[nodiscard]] MacAddress mac() const override;
  [[nodiscard]] uint32_t mtu() const override;
  [[nodiscard]] std::optional<uint32_t> ifindex() const override;
  Result<> set_mtu(uint32_t mtu) override;
  [[nodiscard]] std::map<std::string, int64_t> statistics() const override;
  [[nodiscard]] StringMap status() const override;

 private:
  EthdevPort(std::string name, std::unique_ptr<eal::Ethdev> device, EthdevRequest request);
  /// DPDK's callback for a change of the link, on a thread of DPDK's.
  static int link_event(uint16_t port_id, rte_eth_event_type event, void* self, void* unused);
  Result<> configure(const PortConfig& config);
  Result<> set_addresses(const PortConfig& config);
  Result<> start();

  std::string name_;
  std::unique_ptr<eal::Ethdev> device_;
  uint16_t port_id_;
  EthdevRequest request_;
  std::function<void()> on_link_event_;
  EthdevIo io_;
  std::optional<uint32_t> mtu_{};  ///< of a device that has none of its own
};

}  // namespace headrace::port
