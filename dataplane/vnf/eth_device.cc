// SPDX-License-Identifier: Apache-2.0
#include "vnf/eth_device.h"

#include <rte_dev.h>
#include <rte_errno.h>

#include <algorithm>
#include <array>

#include "base/log.h"
#include "vnf/output.h"

namespace headrace::vnf {
namespace {

/// Probes the device; the id of its Ethernet port.
Result<uint16_t> probe(const PortConfig& config) {
  const std::string name = config.devargs.substr(0, config.devargs.find(','));
  uint16_t id = 0;
  if (rte_eth_dev_get_port_by_name(name.c_str(), &id) == 0) {
    return fail("port {}: the device {} is another port's", config.name, name);
  }
  if (const int error = rte_dev_probe(config.devargs.c_str()); error != 0) {
    return fail("port {}: no device from '{}': {}; the log says more", config.name, config.devargs,
                rte_strerror(-error));
  }
  if (rte_eth_dev_get_port_by_name(name.c_str(), &id) != 0) {
    return fail("port {}: {} is no Ethernet device", config.name, name);
  }
  return id;
}

}  // namespace

Result<std::unique_ptr<Device>> EthDevice::open(const PortConfig& config, rte_mempool* pool) {
  const auto id = probe(config);
  if (!id) return tl::unexpected(id.error());
  std::unique_ptr<EthDevice> device(new EthDevice(config, *id));
  if (auto configured = device->configure(pool); !configured) {
    return tl::unexpected(configured.error());
  }
  if (auto kept = device->keep_up(); !kept) return tl::unexpected(kept.error());
  return device;
}

EthDevice::~EthDevice() {
  rte_eth_dev_info info{};
  const bool known = rte_eth_dev_info_get(id_, &info) == 0;
  if (started_.load()) rte_eth_dev_stop(id_);
  rte_eth_dev_close(id_);
  if (known && info.device != nullptr) rte_dev_remove(info.device);
}

Result<> EthDevice::configure(rte_mempool* pool) {
  rte_eth_dev_info info{};
  if (const int error = rte_eth_dev_info_get(id_, &info); error != 0) {
    return fail("port {}: {}", config_.name, rte_strerror(-error));
  }
  rte_eth_conf conf{};
  conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  // virtio-user as server accepts its peer in the link-state interrupt.
  conf.intr_conf.lsc = (*info.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0 ? 1 : 0;
  if (const int error = rte_eth_dev_configure(id_, 1, 1, &conf); error != 0) {
    return fail("port {}: the device refuses one queue each way: {}", config_.name,
                rte_strerror(-error));
  }
  uint16_t rx_descriptors = config_.rx_descriptors;
  uint16_t tx_descriptors = config_.tx_descriptors;
  rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx_descriptors, &tx_descriptors);
  const auto node = static_cast<unsigned>(SOCKET_ID_ANY);
  if (const int error = rte_eth_rx_queue_setup(id_, 0, rx_descriptors, node, nullptr, pool);
      error != 0) {
    return fail("port {}: receive queue of {}: {}", config_.name, rx_descriptors,
                rte_strerror(-error));
  }
  rte_eth_txconf tx_conf = info.default_txconf;
  tx_conf.offloads = conf.txmode.offloads;
  if (const int error = rte_eth_tx_queue_setup(id_, 0, tx_descriptors, node, &tx_conf);
      error != 0) {
    return fail("port {}: transmit queue of {}: {}", config_.name, tx_descriptors,
                rte_strerror(-error));
  }
  if (config_.mac) {
    rte_ether_addr address{};
    std::copy(config_.mac->begin(), config_.mac->end(), address.addr_bytes);
    const int error = rte_eth_dev_default_mac_addr_set(id_, &address);
    // A device without addresses of its own (a ring, a file) keeps ours all the same: it is the
    // function that uses it.
    if (error != 0 && error != -ENOTSUP) {
      return fail("port {}: the device takes no MAC address: {}", config_.name,
                  rte_strerror(-error));
    }
    mac_ = *config_.mac;
  } else {
    rte_ether_addr address{};
    rte_eth_macaddr_get(id_, &address);
    std::copy(std::begin(address.addr_bytes), std::end(address.addr_bytes), mac_.begin());
  }
  return {};
}

Result<> EthDevice::start() {
  if (const int error = rte_eth_dev_start(id_); error != 0) {
    return fail("{}", rte_strerror(-error));
  }
  // Functions choose by address themselves; devices without filters refuse, which is as good.
  rte_eth_promiscuous_enable(id_);
  started_.store(true, std::memory_order_release);
  return {};
}

Result<> EthDevice::keep_up() {
  if (!started_.load(std::memory_order_relaxed)) {
    if (auto started = start(); !started) {
      log::debug("port {}: not started yet: {}", config_.name, started.error().message);
      return {};
    }
  }
  rte_eth_link link{};
  note_link(rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status != 0);
  return {};
}

uint16_t EthDevice::rx(std::span<rte_mbuf*> packets) noexcept {
  if (!started_.load(std::memory_order_acquire)) return 0;
  const uint16_t count =
      rte_eth_rx_burst(id_, 0, packets.data(), static_cast<uint16_t>(packets.size()));
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
  // Lengths are summed first: a sent packet is no longer ours.
  std::array<uint32_t, Output::kBufferSize> lengths;
  for (size_t i = 0; i < packets.size(); ++i) lengths[i] = packets[i]->pkt_len;
  const uint16_t sent =
      rte_eth_tx_burst(id_, 0, packets.data(), static_cast<uint16_t>(packets.size()));
  uint64_t bytes = 0;
  for (uint16_t i = 0; i < sent; ++i) bytes += lengths[i];
  tx_packets_.add(sent);
  tx_bytes_.add(bytes);
  if (sent < packets.size()) tx_dropped_.add(packets.size() - sent);
  return sent;
}

uint64_t EthDevice::missed() const {
  rte_eth_stats stats{};
  rte_eth_stats_get(id_, &stats);
  return stats.imissed + stats.rx_nombuf;
}

}  // namespace headrace::vnf
