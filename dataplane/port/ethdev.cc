// SPDX-License-Identifier: Apache-2.0
#include "port/ethdev.h"

#include <net/if.h>
#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <thread>

namespace headrace::port {

namespace {

/// Adds the port's name, and where the devices have gone, to what eal says.
Result<std::unique_ptr<eal::Ethdev>> probe(const std::string& port, const std::string& devargs) {
  auto device = eal::Ethdev::probe(devargs);
  if (device) return device;
  const char* hint = device.error().code == "device_limit"
                         ? ", bridges' own interfaces among them; memif, shm, patch and tunnel "
                           "ports need none"
                         : "";
  return fail("{}: {}{}", port, device.error().message, hint);
}

/// Whether the device can send a chain with memory that isn't DPDK's: it takes chains, and reads
/// packets as the program does, not by DMA. Of those named, DPDK 22.11 doesn't announce that they
/// take chains, but they free, pass on or write one segment after the other.
bool takes_external_chains(const rte_eth_dev_info& info) {
  constexpr std::array<std::string_view, 3> kUnannounced = {"net_null", "net_pcap", "net_ring"};
  if (std::string_view(rte_bus_name(rte_dev_bus(info.device))) != "vdev") return false;
  return (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0 ||
         std::ranges::find(kUnannounced, info.driver_name) != kUnannounced.end();
}

}  // namespace

uint16_t EthdevIo::joined(std::span<rte_mbuf*> packets) const noexcept {
  uint16_t count = 0;
  for (rte_mbuf*& packet : packets) {
    if (packet->nb_segs > 1 && RTE_MBUF_HAS_EXTBUF(packet)) [[unlikely]] {
      rte_mbuf* const copy = rte_pktmbuf_copy(packet, copies_, 0, UINT32_MAX);
      if (copy == nullptr) break;
      rte_pktmbuf_free(packet);
      packet = copy;
    }
    ++count;
  }
  return count;
}

EthdevPort::EthdevPort(std::string name, std::unique_ptr<eal::Ethdev> device, EthdevRequest request)
    : name_(std::move(name)),
      device_(std::move(device)),
      port_id_(device_->id()),
      request_(std::move(request)),
      io_(port_id_) {}

Result<std::unique_ptr<Port>> EthdevPort::open(const PortConfig& config, EthdevRequest request) {
  auto device = probe(config.name, request.devargs);
  if (!device) return tl::unexpected(device.error());
  std::unique_ptr<EthdevPort> port(
      new EthdevPort(config.name, std::move(*device), std::move(request)));
  port->on_link_event_ = config.on_link_event;
  if (port->on_link_event_) {
    rte_eth_dev_callback_register(port->port_id_, RTE_ETH_EVENT_INTR_LSC, link_event, port.get());
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
}

Result<> EthdevPort::configure(const PortConfig& config) {
  const rte_eth_dev_info& info = device_->info();
  if (request_.rx_queues > info.max_rx_queues) {
    return fail("{}: options:n_rxq is {}: the device ({}) has at most {}", name_,
                request_.rx_queues, info.driver_name, info.max_rx_queues);
  }
  eal::EthdevOptions options{
      .rx_queues = request_.rx_queues,
      .tx_queues = request_.tx_queue_per_worker
                       ? std::max(request_.tx_queues, config.tx_queues_wanted)
                       : request_.tx_queues,
      .rx_descriptors = request_.rx_descriptors,
      .tx_descriptors = request_.tx_descriptors,
      .mtu = config.mtu.value_or(kDefaultMtu)};
  Result<> done = device_->configure(options);
  const int node = numa_node();
  rte_mempool* near = node >= 0 && config.pool_on_node ? config.pool_on_node(node) : nullptr;
  rte_mempool* const pool = near != nullptr ? near : config.pool;
  if (done) done = device_->set_up_queues(pool);
  if (!done) return fail("{}: {}", name_, done.error().message);
  if (!takes_external_chains(info)) io_.copy_external_chains(pool);
  request_.status["n_rxq_desc"] = std::to_string(device_->options().rx_descriptors);
  request_.status["n_txq_desc"] = std::to_string(device_->options().tx_descriptors);
  return {};
}

Result<> EthdevPort::set_addresses(const PortConfig& config) {
  if (config.mac) {
    const Result<bool> set = device_->set_mac(*config.mac);
    if (!set) return fail("{}: {}", name_, set.error().message);
    if (!*set) return fail("{}: the device has no MAC address that could be set", name_);
  }
  if (config.mtu && *config.mtu != mtu()) {
    if (Result<> set = set_mtu(*config.mtu); !set) return set;
  }
  return {};
}

Result<> EthdevPort::start() {
  Result<> done = device_->start();
  if (done) done = device_->set_promiscuous();  // a switch wants every frame
  if (!done) return fail("{}: {}", name_, done.error().message);
  rte_eth_stats_reset(port_id_);
  io_.open();
  return {};
}

LinkState EthdevPort::link() {
  const eal::EthdevLink link = device_->link();
  return {link.up, link.speed_bps, link.full_duplex};
}

MacAddress EthdevPort::mac() const {
  return device_->mac();
}

uint32_t EthdevPort::mtu() const {
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
  const Result<bool> set = device_->set_mtu(mtu);
  if (!set) return fail("{}: {}", name_, set.error().message);
  if (!*set) mtu_ = mtu;  // a ring, a file: any frame that fits a buffer
  return {};
}

std::map<std::string, int64_t> EthdevPort::statistics() const {
  const rte_eth_stats stats = device_->statistics();
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

int EthdevPort::numa_node() const {
  return rte_eth_dev_socket_id(port_id_);
}

StringMap EthdevPort::status() const {
  StringMap status = request_.status;
  const rte_eth_dev_info& info = device_->info();
  status["driver_name"] = info.driver_name;
  status["max_rx_queues"] = std::to_string(info.max_rx_queues);
  status["max_tx_queues"] = std::to_string(info.max_tx_queues);
  status["port_no"] = std::to_string(port_id_);
  status["numa_id"] = std::to_string(std::max(rte_eth_dev_socket_id(port_id_), 0));
  status["n_rxq"] = std::to_string(n_rx_queues());
  status["n_txq"] = std::to_string(n_tx_queues());
  return status;
}

}  // namespace headrace::port
