// SPDX-License-Identifier: Apache-2.0
#include "port/ethdev.h"

#include <net/if.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/log.h"

namespace headrace::port {

std::string device_name(const std::string& devargs) {
  return devargs.substr(0, devargs.find(','));
}

namespace {

/// Plugs the device; the id of its (first) Ethernet port.
Result<uint16_t> plug(const std::string& port, const std::string& devargs) {
  const std::string device = device_name(devargs);
  uint16_t port_id = 0;
  if (rte_eth_dev_get_port_by_name(device.c_str(), &port_id) == 0) {
    return fail("{}: the device '{}' is in use by another port", port, device);
  }
  if (rte_eth_dev_count_total() >= RTE_MAX_ETHPORTS) {
    return fail(
        "{}: all {} devices that this DPDK has room for are in use, bridges' own interfaces among "
        "them; memif, shm, patch and tunnel ports need none",
        port, RTE_MAX_ETHPORTS);
  }
  if (const int error = rte_dev_probe(devargs.c_str()); error != 0) {
    // Drivers of virtual devices fail with -1 for any cause, and EAL with EFAULT where none
    // answers.
    const std::string why = error == -EFAULT ? "no driver knows this name"
                            : error == -1    ? "its driver refuses it"
                                             : rte_strerror(-error);
    return fail("{}: cannot make the device '{}': {}; the log says more", port, devargs, why);
  }
  if (rte_eth_dev_get_port_by_name(device.c_str(), &port_id) == 0) return port_id;
  // A PCI device's port may be named by the driver: look the device's arguments up instead.
  rte_dev_iterator iterator;
  if (rte_eth_iterator_init(&iterator, devargs.c_str()) == 0) {
    port_id = rte_eth_iterator_next(&iterator);
    if (port_id != RTE_MAX_ETHPORTS) {
      rte_eth_iterator_cleanup(&iterator);
      return port_id;
    }
  }
  return fail("{}: the device '{}' is no Ethernet device", port, device);
}

/// Asks the kernel something about an interface; `change` edits the answer of `get` for `set`.
template <typename Change>
Result<ifreq> ask_kernel(const std::string& interface, unsigned long get, unsigned long set,
                         Change change) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  bool done = fd >= 0 && ::ioctl(fd, get, &request) == 0;
  if (done && set != 0) {
    change(request);
    done = ::ioctl(fd, set, &request) == 0;
  }
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!done) return fail("the kernel says: {}", std::strerror(error));
  return request;
}

/// Clears IFF_UP of a kernel interface, which net_tap sets.
Result<> take_down(const std::string& interface) {
  const auto done = ask_kernel(interface, SIOCGIFFLAGS, SIOCSIFFLAGS, [](ifreq& request) {
    request.ifr_flags = static_cast<short>(request.ifr_flags & ~IFF_UP);
  });
  if (!done) return fail("{}: cannot be taken down: {}", interface, done.error().message);
  return {};
}

/// Frees what waits in the receive queues of a port that nobody polls yet.
void discard_received(uint16_t port_id, uint16_t queues) {
  std::array<rte_mbuf*, 32> burst;
  for (uint16_t queue = 0; queue < queues; ++queue) {
    while (const uint16_t count = rte_eth_rx_burst(port_id, queue, burst.data(), burst.size())) {
      rte_pktmbuf_free_bulk(burst.data(), count);
    }
  }
}

}  // namespace

EthdevPort::EthdevPort(std::string name, uint16_t port_id, EthdevRequest request)
    : name_(std::move(name)), port_id_(port_id), request_(std::move(request)), io_(port_id) {}

Result<std::unique_ptr<Port>> EthdevPort::open(const PortConfig& config, EthdevRequest request) {
  const Result<uint16_t> port_id = plug(config.name, request.devargs);
  if (!port_id) return tl::unexpected(port_id.error());
  std::unique_ptr<EthdevPort> port(new EthdevPort(config.name, *port_id, std::move(request)));
  port->on_link_event_ = config.on_link_event;
  if (port->on_link_event_) {
    rte_eth_dev_callback_register(*port_id, RTE_ETH_EVENT_INTR_LSC, link_event, port.get());
  }
  if (Result<> done = port->configure(config); !done) return tl::unexpected(done.error());
  if (Result<> done = port->set_addresses(config); !done) return tl::unexpected(done.error());
  if (Result<> done = port->start(); !done) return tl::unexpected(done.error());
  return port;
}

int EthdevPort::link_event(uint16_t /*port_id*/, rte_eth_event_type /*event*/, void* self,
                           void* /*unused*/) {
  static_cast<EthdevPort*>(self)->on_link_event_();
  return 0;
}

EthdevPort::~EthdevPort() {
  // Refused while the callback runs.
  while (on_link_event_ && rte_eth_dev_callback_unregister(port_id_, RTE_ETH_EVENT_INTR_LSC,
                                                           link_event, this) == -EAGAIN) {
    std::this_thread::yield();
  }
  rte_eth_dev_info info{};
  const bool known = rte_eth_dev_info_get(port_id_, &info) == 0;
  rte_eth_dev_stop(port_id_);
  rte_eth_dev_close(port_id_);
  if (known && info.device != nullptr) {
    if (const int error = rte_dev_remove(info.device); error != 0) {
      log::warn("{}: the device could not be removed: {}", name_, rte_strerror(-error));
    }
  }
}

Result<> EthdevPort::configure(const PortConfig& config) {
  rte_eth_dev_info info{};
  if (const int error = rte_eth_dev_info_get(port_id_, &info); error != 0) {
    return fail("{}: the device does not describe itself: {}", name_, rte_strerror(-error));
  }
  if (request_.rx_queues > info.max_rx_queues) {
    return fail("{}: options:n_rxq is {}: the device ({}) has at most {}", name_,
                request_.rx_queues, info.driver_name, info.max_rx_queues);
  }
  rx_queues_ = request_.rx_queues;
  const uint16_t wanted = request_.tx_queue_per_worker
                              ? std::max(request_.tx_queues, config.tx_queues_wanted)
                              : request_.tx_queues;
  tx_queues_ = std::min(wanted, info.max_tx_queues);

  rte_eth_conf conf{};
  if (rx_queues_ > 1 && info.flow_type_rss_offloads != 0) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf =
        info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);
  }
  const uint32_t wanted_mtu =
      request_.kernel_has_mtu ? kDefaultMtu : config.mtu.value_or(kDefaultMtu);
  conf.rxmode.mtu = std::min<uint32_t>(wanted_mtu, info.max_mtu);
  conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  if (const int error = rte_eth_dev_configure(port_id_, rx_queues_, tx_queues_, &conf);
      error != 0) {
    return fail("{}: the device refuses {} receive and {} transmit queues, MTU {}: {}", name_,
                rx_queues_, tx_queues_, conf.rxmode.mtu, rte_strerror(-error));
  }

  uint16_t rx_descriptors = request_.rx_descriptors;
  uint16_t tx_descriptors = request_.tx_descriptors;
  rte_eth_dev_adjust_nb_rx_tx_desc(port_id_, &rx_descriptors, &tx_descriptors);
  const int socket = rte_eth_dev_socket_id(port_id_);
  const auto node = static_cast<unsigned>(socket < 0 ? SOCKET_ID_ANY : socket);
  for (uint16_t queue = 0; queue < rx_queues_; ++queue) {
    const int error =
        rte_eth_rx_queue_setup(port_id_, queue, rx_descriptors, node, nullptr, config.pool);
    if (error != 0) {
      return fail("{}: receive queue {} with {} descriptors: {}", name_, queue, rx_descriptors,
                  rte_strerror(-error));
    }
  }
  rte_eth_txconf tx_conf = info.default_txconf;
  tx_conf.offloads = conf.txmode.offloads;
  for (uint16_t queue = 0; queue < tx_queues_; ++queue) {
    const int error = rte_eth_tx_queue_setup(port_id_, queue, tx_descriptors, node, &tx_conf);
    if (error != 0) {
      return fail("{}: transmit queue {} with {} descriptors: {}", name_, queue, tx_descriptors,
                  rte_strerror(-error));
    }
  }
  request_.status["n_rxq_desc"] = std::to_string(rx_descriptors);
  request_.status["n_txq_desc"] = std::to_string(tx_descriptors);
  return {};
}

Result<> EthdevPort::set_addresses(const PortConfig& config) {
  if (config.mac) {
    rte_ether_addr address;
    std::copy(config.mac->begin(), config.mac->end(), address.addr_bytes);
    if (const int error = rte_eth_dev_default_mac_addr_set(port_id_, &address); error != 0) {
      return fail("{}: the device does not take a MAC address: {}", name_, rte_strerror(-error));
    }
  }
  if (config.mtu && *config.mtu != mtu()) {
    if (Result<> set = set_mtu(*config.mtu); !set) return set;
  }
  return {};
}

Result<> EthdevPort::start() {
  if (const int error = rte_eth_dev_start(port_id_); error != 0) {
    return fail("{}: the device does not start: {}; the log says more", name_,
                rte_strerror(-error));
  }
  // A switch wants every frame. Devices without filters say they cannot: that is as good.
  if (const int error = rte_eth_promiscuous_enable(port_id_); error != 0 && error != -ENOTSUP) {
    return fail("{}: the device does not go promiscuous: {}", name_, rte_strerror(-error));
  }
  if (request_.leave_down) {
    if (Result<> down = take_down(request_.kernel_interface); !down) return down;
    // While it was up the kernel may have announced IPv6 on it: nobody asked for that frame.
    discard_received(port_id_, rx_queues_);
  }
  rte_eth_stats_reset(port_id_);
  io_.open();
  return {};
}

LinkState EthdevPort::link() {
  rte_eth_link link{};
  if (rte_eth_link_get_nowait(port_id_, &link) != 0) return {};
  const bool is_up = link.link_status == RTE_ETH_LINK_UP;
  const bool speed_known =
      link.link_speed != RTE_ETH_SPEED_NUM_NONE && link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN;
  return {is_up, speed_known ? uint64_t{link.link_speed} * 1'000'000 : 0,
          link.link_duplex == RTE_ETH_LINK_FULL_DUPLEX};
}

MacAddress EthdevPort::mac() const {
  MacAddress mac{};
  rte_ether_addr address{};
  if (rte_eth_macaddr_get(port_id_, &address) == 0) {
    std::copy(std::begin(address.addr_bytes), std::end(address.addr_bytes), mac.begin());
  }
  return mac;
}

uint32_t EthdevPort::mtu() const {
  if (request_.kernel_has_mtu) {
    const auto asked = ask_kernel(request_.kernel_interface, SIOCGIFMTU, 0, [](ifreq&) {});
    return asked ? static_cast<uint32_t>(asked->ifr_mtu) : 0;
  }
  if (mtu_) return *mtu_;
  uint16_t mtu = 0;
  return rte_eth_dev_get_mtu(port_id_, &mtu) == 0 ? mtu : 0;
}

std::optional<uint32_t> EthdevPort::ifindex() const {
  if (request_.kernel_interface.empty()) return std::nullopt;
  const unsigned index = ::if_nametoindex(request_.kernel_interface.c_str());
  return index == 0 ? std::nullopt : std::optional<uint32_t>(index);
}

Result<> EthdevPort::set_mtu(uint32_t mtu) {
  if (request_.kernel_has_mtu) {
    const auto done =
        ask_kernel(request_.kernel_interface, SIOCGIFMTU, SIOCSIFMTU,
                   [mtu](ifreq& request) { request.ifr_mtu = static_cast<int>(mtu); });
    if (!done) return fail("{}: MTU {}: {}", name_, mtu, done.error().message);
    return {};
  }
  rte_eth_dev_info info{};
  if (rte_eth_dev_info_get(port_id_, &info) == 0 && (mtu < info.min_mtu || mtu > info.max_mtu)) {
    return fail("{}: MTU {}: the device takes {} to {}", name_, mtu, info.min_mtu, info.max_mtu);
  }
  if (info.max_rx_pktlen != 0 && mtu + RTE_ETHER_HDR_LEN > info.max_rx_pktlen) {
    return fail("{}: MTU {}: the device ({}) takes frames of at most {} bytes", name_, mtu,
                info.driver_name, info.max_rx_pktlen);
  }
  const int error = rte_eth_dev_set_mtu(port_id_, static_cast<uint16_t>(mtu));
  if (error == -ENOTSUP) {
    mtu_ = mtu;  // a ring, a file: any frame that fits a buffer
    return {};
  }
  if (error != 0) return fail("{}: MTU {}: {}", name_, mtu, rte_strerror(-error));
  return {};
}

std::map<std::string, int64_t> EthdevPort::statistics() const {
  rte_eth_stats stats{};
  if (rte_eth_stats_get(port_id_, &stats) != 0) return {};
  const auto count = [](uint64_t value) { return static_cast<int64_t>(value); };
  return {{"rx_packets", count(stats.ipackets)},
          {"tx_packets", count(stats.opackets)},
          {"rx_bytes", count(stats.ibytes)},
          {"tx_bytes", count(stats.obytes)},
          {"rx_dropped", count(stats.imissed + stats.rx_nombuf)},
          {"rx_errors", count(stats.ierrors)},
          {"tx_errors", count(stats.oerrors)},
          {"rx_missed_errors", count(stats.imissed)},
          {"rx_no_buffer_errors", count(stats.rx_nombuf)}};
}

StringMap EthdevPort::status() const {
  StringMap status = request_.status;
  rte_eth_dev_info info{};
  if (rte_eth_dev_info_get(port_id_, &info) == 0) {
    status["driver_name"] = info.driver_name;
    status["max_rx_queues"] = std::to_string(info.max_rx_queues);
    status["max_tx_queues"] = std::to_string(info.max_tx_queues);
  }
  status["port_no"] = std::to_string(port_id_);
  status["numa_id"] = std::to_string(std::max(rte_eth_dev_socket_id(port_id_), 0));
  status["n_rxq"] = std::to_string(rx_queues_);
  status["n_txq"] = std::to_string(tx_queues_);
  return status;
}

}  // namespace headrace::port
