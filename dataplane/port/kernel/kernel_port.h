// SPDX-License-Identifier: Apache-2.0
// What the ports on kernel interfaces have in common: the interface, and what is counted.
#pragma once

#include <rte_common.h>

#include <memory>
#include <string>

#include "port/kernel/interface.h"
#include "port/kernel/packet_socket.h"
#include "port/port.h"

namespace headrace::port {

class KernelPort : public Port, public pipeline::PortIo {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] pipeline::PortIo& io() override { return *this; }
  /// Any number of threads may send, each by its own number.
  [[nodiscard]] uint16_t n_tx_queues() const override { return n_tx_queues_; }
  [[nodiscard]] uint64_t tx_offloads() const noexcept override { return kVnetOffloads; }

  LinkState link() override { return interface_.link(); }
  [[nodiscard]] MacAddress mac() const override { return interface_.mac(); }
  [[nodiscard]] uint32_t mtu() const override { return interface_.mtu(); }
  [[nodiscard]] std::optional<uint32_t> ifindex() const override;
  Result<> set_mtu(uint32_t mtu) override { return interface_.set_mtu(mtu); }

 protected:
  KernelPort(const PortConfig& config, KernelInterface interface);
  /// MAC address and MTU as they are wanted.
  Result<> set_addresses(const PortConfig& config);

  struct alignas(RTE_CACHE_LINE_SIZE) Sender : TxCounts {};
  [[nodiscard]] Sender& sender(uint16_t queue) { return senders_[queue % n_tx_queues_]; }
  void add_received(const RxCounts& counts, uint64_t missed,
                    std::map<std::string, int64_t>& statistics) const;
  void add_sent(std::map<std::string, int64_t>& statistics) const;

  std::string name_;
  KernelInterface interface_;

 private:
  uint16_t n_tx_queues_;
  std::unique_ptr<Sender[]> senders_;
};

}  // namespace headrace::port
