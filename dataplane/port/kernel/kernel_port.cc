// SPDX-License-Identifier: Apache-2.0
#include "port/kernel/kernel_port.h"

#include <algorithm>

namespace headrace::port {

KernelPort::KernelPort(const PortConfig& config, KernelInterface interface)
    : name_(config.name),
      interface_(std::move(interface)),
      n_tx_queues_(std::max<uint16_t>(config.tx_queues_wanted, 1)),
      senders_(new Sender[n_tx_queues_]) {}

std::optional<uint32_t> KernelPort::ifindex() const {
  const uint32_t index = interface_.index();
  return index == 0 ? std::nullopt : std::optional(index);
}

Result<> KernelPort::set_addresses(const PortConfig& config) {
  if (config.mac && *config.mac != interface_.mac()) {
    if (Result<> set = interface_.set_mac(*config.mac); !set) return set;
  }
  if (config.mtu && *config.mtu != interface_.mtu()) return interface_.set_mtu(*config.mtu);
  return {};
}

void KernelPort::add_received(const RxCounts& counts, uint64_t missed,
                              std::map<std::string, int64_t>& statistics) const {
  const auto add = [&](const char* key, uint64_t count) {
    statistics[key] += static_cast<int64_t>(count);
  };
  add("rx_packets", counts.packets.read());
  add("rx_bytes", counts.octets.read());
  add("rx_errors", counts.errors.read());
  add("rx_dropped", missed);
  add("rx_missed_errors", missed);
  add("rx_no_buffer_errors", counts.no_buffer.read());
}

void KernelPort::add_sent(std::map<std::string, int64_t>& statistics) const {
  for (const Sender& each : std::span(senders_.get(), n_tx_queues_)) {
    statistics["tx_packets"] += static_cast<int64_t>(each.packets.read());
    statistics["tx_bytes"] += static_cast<int64_t>(each.octets.read());
    statistics["tx_errors"] += static_cast<int64_t>(each.errors.read());
  }
}

}  // namespace headrace::port
