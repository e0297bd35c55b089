// SPDX-License-Identifier: Apache-2.0
#include "eal/ethdev.h"

#include <rte_dev.h>
#include <rte_errno.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/log.h"
#include "eal/drivers.h"

namespace headrace::eal {
namespace {

/// Drivers of virtual devices fail with -1 for any cause, and EAL with EFAULT where none matches.
std::string reason_of(int error) {
  if (error == -EFAULT) return "no driver matches this name";
  if (error == -1) return "its driver refuses it";
  return rte_strerror(-error);
}

/// The id of the (first) Ethernet port of a device that was probed.
std::optional<uint16_t> port_of(const std::string& name, const std::string& devargs) {
  uint16_t id = 0;
  if (rte_eth_dev_get_port_by_name(name.c_str(), &id) == 0) return id;
  // A PCI device's port may be named by the driver: look the device's arguments up instead.
  rte_dev_iterator iterator;
  if (rte_eth_iterator_init(&iterator, devargs.c_str()) != 0) return std::nullopt;
  id = rte_eth_iterator_next(&iterator);
  if (id == RTE_MAX_ETHPORTS) return std::nullopt;
  rte_eth_iterator_cleanup(&iterator);
  return id;
}

}  // namespace

std::string device_name(const std::string& devargs) {
  return devargs.substr(0, devargs.find(','));
}

Result<std::unique_ptr<Ethdev>> Ethdev::probe(const std::string& devargs) {
  const std::string name = device_name(devargs);
  uint16_t id = 0;
  if (rte_eth_dev_get_port_by_name(name.c_str(), &id) == 0) {
    return fail_as("exists", "the device '{}' is in use by another port", name);
  }
  if (rte_eth_dev_count_total() >= RTE_MAX_ETHPORTS) {
    return fail_as("device_limit", "all {} devices that this DPDK has room for are in use",
                   RTE_MAX_ETHPORTS);
  }
  if (Result<> loaded = load_driver_for(name); !loaded) {
    return fail_as("no_device", "the device '{}': {}", name, loaded.error().message);
  }
  if (const int error = rte_dev_probe(devargs.c_str()); error != 0) {
    const bool is_final = error == -EINVAL || error == -ENODEV || error == -EFAULT;
    return fail_as(is_final ? "no_device" : "no_peer",
                   "cannot make the device '{}': {}; the log says more", devargs, reason_of(error));
  }
  const std::optional<uint16_t> found = port_of(name, devargs);
  if (!found) return fail_as("no_device", "the device '{}' is no Ethernet device", name);
  std::unique_ptr<Ethdev> device(new Ethdev(name, *found));
  if (const int error = rte_eth_dev_info_get(*found, &device->info_); error != 0) {
    return fail_as("no_device", "the device '{}' gives no information: {}", name,
                   rte_strerror(-error));
  }
  return device;
}

Ethdev::~Ethdev() {
  rte_eth_dev_stop(id_);
  rte_eth_dev_close(id_);
  if (info_.device == nullptr) return;
  if (const int error = rte_dev_remove(info_.device); error != 0) {
    log::warn("device {}: cannot be removed: {}", name_, rte_strerror(-error));
  }
}

Result<> Ethdev::configure(const EthdevOptions& options) {
  options_ = options;
  EthdevOptions& o = options_;
  if (o.rx_queues > info_.max_rx_queues) {
    return fail("{} receive queues: the device ({}) has at most {}", o.rx_queues, info_.driver_name,
                info_.max_rx_queues);
  }
  o.tx_queues = std::min(o.tx_queues, info_.max_tx_queues);
  rte_eth_conf conf{};
  if (o.rx_queues > 1 && info_.flow_type_rss_offloads != 0) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf =
        info_.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);
  }
  conf.rxmode.mtu = std::min<uint32_t>(o.mtu, info_.max_mtu);
  if (o.segmented_tx) tx_offloads_ = info_.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  if (o.offloads) {
    conf.rxmode.offloads =
        info_.rx_offload_capa &
        (RTE_ETH_RX_OFFLOAD_TCP_LRO | RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM);
    tx_offloads_ |=
        info_.tx_offload_capa &
        (RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM);
  }
  conf.txmode.offloads = tx_offloads_;
  conf.intr_conf.rxq = o.rx_interrupts ? 1 : 0;
  conf.intr_conf.lsc = o.link_interrupt && (*info_.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0 ? 1 : 0;
  if (const int error = rte_eth_dev_configure(id_, o.rx_queues, o.tx_queues, &conf); error != 0) {
    return fail("the device refuses {} receive and {} transmit queues, MTU {}: {}", o.rx_queues,
                o.tx_queues, conf.rxmode.mtu, rte_strerror(-error));
  }
  rte_eth_dev_adjust_nb_rx_tx_desc(id_, &o.rx_descriptors, &o.tx_descriptors);
  return {};
}

Result<> Ethdev::set_up_queues(rte_mempool* pool) {
  const int socket = rte_eth_dev_socket_id(id_);
  const auto node = static_cast<unsigned>(socket < 0 ? SOCKET_ID_ANY : socket);
  for (uint16_t queue = 0; queue < options_.rx_queues; ++queue) {
    const int error =
        rte_eth_rx_queue_setup(id_, queue, options_.rx_descriptors, node, nullptr, pool);
    if (error != 0) {
      return fail("receive queue {} with {} descriptors: {}", queue, options_.rx_descriptors,
                  rte_strerror(-error));
    }
  }
  rte_eth_txconf conf = info_.default_txconf;
  conf.offloads = tx_offloads_;
  for (uint16_t queue = 0; queue < options_.tx_queues; ++queue) {
    const int error = rte_eth_tx_queue_setup(id_, queue, options_.tx_descriptors, node, &conf);
    if (error != 0) {
      return fail("transmit queue {} with {} descriptors: {}", queue, options_.tx_descriptors,
                  rte_strerror(-error));
    }
  }
  return {};
}

Result<> Ethdev::start() {
  if (const int error = rte_eth_dev_start(id_); error != 0) {
    return fail("the device does not start: {}; the log says more", rte_strerror(-error));
  }
  switch_flow_control_off();
  return {};
}

// A NIC that pauses its peer hides that frames would have been lost: RFC 2544 measures without, and
// a switch whose one slow port pauses the line stops all others on it. Most devices have none.
void Ethdev::switch_flow_control_off() {
  rte_eth_fc_conf conf{};
  if (rte_eth_dev_flow_ctrl_get(id_, &conf) != 0) return;
  if (conf.mode != RTE_ETH_FC_NONE) {
    conf.mode = RTE_ETH_FC_NONE;
    if (const int error = rte_eth_dev_flow_ctrl_set(id_, &conf); error != 0) {
      log::warn("device {}: flow control stays on: {}", name_, rte_strerror(-error));
      return;
    }
  }
  log::info("device {}: flow control is off", name_);
}

Result<> Ethdev::set_promiscuous() {
  if (const int error = rte_eth_promiscuous_enable(id_); error != 0 && error != -ENOTSUP) {
    return fail("the device refuses promiscuous mode: {}", rte_strerror(-error));
  }
  return {};
}

Result<bool> Ethdev::set_mac(const std::array<uint8_t, 6>& mac) {
  rte_ether_addr address;
  std::copy(mac.begin(), mac.end(), address.addr_bytes);
  const int error = rte_eth_dev_default_mac_addr_set(id_, &address);
  if (error == -ENOTSUP) return false;
  if (error != 0) return fail("the device refuses the MAC address: {}", rte_strerror(-error));
  return true;
}

std::array<uint8_t, 6> Ethdev::mac() const {
  std::array<uint8_t, 6> mac{};
  rte_ether_addr address{};
  if (rte_eth_macaddr_get(id_, &address) == 0) {
    std::copy(std::begin(address.addr_bytes), std::end(address.addr_bytes), mac.begin());
  }
  return mac;
}

Result<bool> Ethdev::set_mtu(uint32_t mtu) {
  if (mtu < info_.min_mtu || mtu > info_.max_mtu) {
    return fail("MTU {}: the device takes {} to {}", mtu, info_.min_mtu, info_.max_mtu);
  }
  if (info_.max_rx_pktlen != 0 && mtu + RTE_ETHER_HDR_LEN > info_.max_rx_pktlen) {
    return fail("MTU {}: the device ({}) takes frames of at most {} bytes", mtu, info_.driver_name,
                info_.max_rx_pktlen);
  }
  const int error = rte_eth_dev_set_mtu(id_, static_cast<uint16_t>(mtu));
  if (error == -ENOTSUP) return false;
  if (error != 0) return fail("MTU {}: {}", mtu, rte_strerror(-error));
  return true;
}

EthdevLink Ethdev::link() const {
  rte_eth_link link{};
  if (rte_eth_link_get_nowait(id_, &link) != 0) return {};
  const bool speed_known =
      link.link_speed != RTE_ETH_SPEED_NUM_NONE && link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN;
  return {.up = link.link_status == RTE_ETH_LINK_UP,
          .speed_bps = speed_known ? uint64_t{link.link_speed} * 1'000'000 : 0,
          .full_duplex = link.link_duplex == RTE_ETH_LINK_FULL_DUPLEX};
}

rte_eth_stats Ethdev::statistics() const {
  rte_eth_stats stats{};
  if (rte_eth_stats_get(id_, &stats) != 0) return {};
  return stats;
}

}  // namespace headrace::eal
