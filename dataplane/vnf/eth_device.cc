// SPDX-License-Identifier: Apache-2.0
#include "vnf/eth_device.h"

#include <array>

#include "base/log.h"
#include "vnf/output.h"

namespace headrace::vnf {

Result<std::unique_ptr<Device>> EthDevice::open(const PortConfig& config, rte_mempool* pool) {
  auto ethdev = eal::Ethdev::probe(config.devargs);
  if (!ethdev) return fail("port {}: {}", config.name, ethdev.error().message);
  std::unique_ptr<EthDevice> device(new EthDevice(config, std::move(*ethdev)));
  if (auto configured = device->configure(pool); !configured) {
    return fail("port {}: {}", config.name, configured.error().message);
  }
  if (auto kept = device->update_link(); !kept) return tl::unexpected(kept.error());
  return device;
}

Result<> EthDevice::configure(rte_mempool* pool) {
  const Result<> configured = ethdev_->configure({.rx_descriptors = config_.rx_descriptors,
                                                  .tx_descriptors = config_.tx_descriptors,
                                                  .link_interrupt = true});
  if (!configured) return configured;
  if (Result<> set_up = ethdev_->set_up_queues(pool); !set_up) return set_up;
  if (config_.mac) {
    // A device without a configurable address (a ring, a file) is no error: only the function uses
    // the address.
    if (const Result<bool> set = ethdev_->set_mac(*config_.mac); !set) {
      return tl::unexpected(set.error());
    }
  }
  mac_ = config_.mac.value_or(ethdev_->mac());
  return {};
}

Result<> EthDevice::start() {
  if (Result<> started = ethdev_->start(); !started) return started;
  // Functions compare addresses themselves.
  if (Result<> set = ethdev_->set_promiscuous(); !set) {
    log::warn("port {}: {}", config_.name, set.error().message);
  }
  started_.store(true, std::memory_order_release);
  return {};
}

Result<> EthDevice::update_link() {
  if (!started_.load(std::memory_order_relaxed)) {
    if (auto started = start(); !started) {
      log::debug("port {}: not started yet: {}", config_.name, started.error().message);
      return {};
    }
  }
  note_link(ethdev_->link().up);
  return {};
}

uint16_t EthDevice::rx(std::span<rte_mbuf*> packets) noexcept {
  if (!started_.load(std::memory_order_acquire)) return 0;
  const uint16_t count =
      rte_eth_rx_burst(ethdev_->id(), 0, packets.data(), static_cast<uint16_t>(packets.size()));
  if (count == 0) return 0;
  uint64_t bytes = 0;
  for (const rte_mbuf* packet : packets.first(count)) bytes += packet->pkt_len;
  rx_packets_.add(count);
  rx_bytes_.add(bytes);
  return count;
}

uint16_t EthDevice::tx(std::span<rte_mbuf*> packets) noexcept {
  if (!started_.load(std::memory_order_acquire)) {
    tx_dropped_.add(packets.size());
    return 0;
  }
  // Sum up the lengths first: a sent packet is no longer ours.
  std::array<uint32_t, Output::kBufferSize> lengths;
  for (size_t i = 0; i < packets.size(); ++i) lengths[i] = packets[i]->pkt_len;
  const uint16_t sent =
      rte_eth_tx_burst(ethdev_->id(), 0, packets.data(), static_cast<uint16_t>(packets.size()));
  uint64_t bytes = 0;
  for (uint16_t i = 0; i < sent; ++i) bytes += lengths[i];
  tx_packets_.add(sent);
  tx_bytes_.add(bytes);
  if (sent < packets.size()) tx_dropped_.add(packets.size() - sent);
  return sent;
}

uint64_t EthDevice::missed() const {
  const rte_eth_stats stats = ethdev_->statistics();
  return stats.imissed + stats.rx_nombuf;
}

}  // namespace headrace::vnf
