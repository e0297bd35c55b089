// SPDX-License-Identifier: Apache-2.0
// An Ethernet device of DPDK as an object: hot-plugged by probe(), stopped, closed and removed by
// the destructor. The one place that configures devices: ports of the switch, the generator, VNFs
// and the channel bench differ in the options only.
//
// Order: probe, configure, (set_mac, set_mtu), set_up_queues, start. Packets go by DPDK's own burst
// functions and id(), and only after start(): a driver may leave them unset before.
//
// Errors do not name the port: callers put its name before the message.
//
// Thread safety: control thread; the burst functions as DPDK says, one thread per queue.
#pragma once

#include <rte_ethdev.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace headrace::eal {

struct EthdevOptions {
  uint16_t rx_queues{1};  ///< more than one: RSS over IP, UDP and TCP where the device has it
  uint16_t tx_queues{1};  ///< fewer if the device has no more
  uint16_t rx_descriptors{1024};  ///< per queue; moved into the device's limits
  uint16_t tx_descriptors{1024};
  uint32_t mtu{0};          ///< at start, at most the device's; 0: 1500 or the device's
  bool segmented_tx{true};  ///< accept chained mbufs for transmission where the device can
  /// TCP's and UDP's checksums and TCP's segmentation are left to the device and taken as it leaves
  /// them, where it can.
  bool offloads{false};
  bool rx_interrupts{false};   ///< receive queues can be waited for (rte_eth_dev_rx_intr_enable())
  bool link_interrupt{false};  ///< LSC interrupts: virtio-user as server needs them to accept
};

struct EthdevLink {
  bool up{false};
  uint64_t speed_bps{0};  ///< 0: unknown
  bool full_duplex{false};
};

/// The device's name in its arguments: "net_null0" of "net_null0,size=64".
[[nodiscard]] std::string device_name(const std::string& devargs);

class Ethdev {
 public:
  /// Makes the device of "net_null0,size=64" or of a PCI address. Error codes: `exists` (there is
  /// such a device already), `device_limit` (RTE_MAX_ETHPORTS), `no_peer` (its driver refuses it
  /// now and may not later: a virtio-user client whose server is not up), `no_device`.
  static Result<std::unique_ptr<Ethdev>> probe(const std::string& devargs);
  ~Ethdev();
  Ethdev(const Ethdev&) = delete;
  Ethdev& operator=(const Ethdev&) = delete;

  [[nodiscard]] uint16_t id() const { return id_; }
  [[nodiscard]] const rte_eth_dev_info& info() const { return info_; }

  /// Before it starts. Afterwards options() are what the device has: queues and descriptors.
  Result<> configure(const EthdevOptions& options);
  [[nodiscard]] const EthdevOptions& options() const { return options_; }
  /// After configure(). Packets are received into buffers of `pool`, which must outlive the device.
  Result<> set_up_queues(rte_mempool* pool);
  /// Safe to call again after it failed: some devices start only once their peer is there. A NIC
  /// neither sends nor heeds pause frames then.
  Result<> start();

  /// Receives frames to any address. A device without an address filter does so anyway: no error.
  Result<> set_promiscuous();
  /// False: the device has no address (a ring, a file).
  Result<bool> set_mac(const std::array<uint8_t, 6>& mac);
  /// Zeros where the device has none.
  [[nodiscard]] std::array<uint8_t, 6> mac() const;
  /// False: the device has no MTU, and takes any frame that fits a buffer.
  Result<bool> set_mtu(uint32_t mtu);
  /// Down if the device does not say.
  [[nodiscard]] EthdevLink link() const;
  /// Zeros if the device does not count.
  [[nodiscard]] rte_eth_stats statistics() const;

 private:
  Ethdev(std::string name, uint16_t id) : name_(std::move(name)), id_(id) {}

  void switch_flow_control_off();

  std::string name_;
  uint16_t id_;
  rte_eth_dev_info info_{};
  EthdevOptions options_;
  uint64_t tx_offloads_{0};
};

}  // namespace headrace::eal
