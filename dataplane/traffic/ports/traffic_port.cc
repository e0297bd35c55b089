// SPDX-License-Identifier: Apache-2.0
#include "traffic/ports/traffic_port.h"

#include <rte_ethdev.h>
#include <rte_ether.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "packet/mac_address.h"

namespace headrace::traffic {

using nlohmann::json;

namespace {

constexpr uint16_t kEthernetOverhead = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;

/// Buffers for both queues, the mempool's cache, and bursts being processed.
uint32_t buffers_for(uint16_t descriptors) {
  return 4U * descriptors + 1024 + 512;
}

/// The socket on which a vhost-user device with these arguments will listen, or "".
std::string listens_on(const std::string& devargs) {
  if (devargs.starts_with("net_virtio_user") && devarg(devargs, "server") == "1") {
    return devarg(devargs, "path");
  }
  if (devargs.starts_with("net_vhost") && devarg(devargs, "client") != "1") {
    return devarg(devargs, "iface");
  }
  return "";
}

/// Removes a socket that a killed process left behind, since the driver would fail to bind to it. A
/// socket with a listener, or a file of another kind, is kept.
void remove_dead_socket(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  struct stat status {};
  if (path.empty() || path.size() >= sizeof address.sun_path) return;
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  path.copy(address.sun_path, path.size());
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return;
  const int failed = ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (failed != 0 && errno == ECONNREFUSED) ::unlink(path.c_str());
  ::close(probe);
}

}  // namespace

std::string devarg(const std::string& devargs, const std::string& key) {
  const std::string wanted = "," + key + "=";
  const size_t at = devargs.find(wanted);
  if (at == std::string::npos) return "";
  const size_t begin = at + wanted.size();
  const size_t end = devargs.find(',', begin);
  return devargs.substr(begin, end == std::string::npos ? end : end - begin);
}

TrafficPort::TrafficPort(PortOptions options) : options_(std::move(options)) {
  static uint16_t ports = 0;  // used by the control thread, or by the opener's while that one waits
  number_ = ports++;
}

Result<std::unique_ptr<TrafficPort>> TrafficPort::open(const PortOptions& options) {
  std::unique_ptr<TrafficPort> port(new TrafficPort(options));
  if (auto attached = port->attach(); !attached) return tl::unexpected(attached.error());
  if (auto configured = port->configure(); !configured) return tl::unexpected(configured.error());
  return port;
}

Result<std::unique_ptr<TrafficPort>> TrafficPort::open_memif(const PortOptions& options,
                                                             port::memif::EndpointConfig memif,
                                                             asio::io_context& io) {
  if (!options.mac.empty() && !packet::parse_mac(options.mac)) {
    return fail_as("bad_params", "/mac: '{}' is not a MAC address", options.mac);
  }
  std::unique_ptr<TrafficPort> port(new TrafficPort(options));
  if (auto made = port->make_pool(1U << memif.log2_ring_size); !made) {
    return tl::unexpected(made.error());
  }
  memif.name = options.name;
  auto opened = port::memif::Standalone::open(io, std::move(memif));
  if (!opened) return fail_as("bad_devargs", "/devargs: {}", opened.error().message);
  port->memif_ = std::move(*opened);
  return port;
}

Result<std::unique_ptr<TrafficPort>> TrafficPort::open_shm(const PortOptions& options,
                                                           const ShmPortName& shm) {
  if (!options.mac.empty() && !packet::parse_mac(options.mac)) {
    return fail_as("bad_params", "/mac: '{}' is not a MAC address", options.mac);
  }
  std::unique_ptr<TrafficPort> port(new TrafficPort(options));
  if (auto made = port->make_pool(options.descriptors); !made) {
    return tl::unexpected(made.error());
  }
  auto opened = ShmPort::open(shm, options.max_frame);
  if (!opened) return fail_as("bad_devargs", "/devargs: {}", opened.error().message);
  port->shm_ = std::move(*opened);
  return port;
}

Result<> TrafficPort::make_pool(uint32_t descriptors) {
  auto pool = eal::make_mempool({.name = "traffic-" + std::to_string(number_),
                                 .buffers = buffers_for(descriptors),
                                 .cache = 512,
                                 // virtio needs space for its header and a tag, too.
                                 .data_size = std::max<uint16_t>(2048, options_.max_frame + 64)});
  if (!pool) return tl::unexpected(pool.error());
  pool_ = std::move(*pool);
  return {};
}

Result<> TrafficPort::attach() {
  const std::string& devargs = options_.devargs;
  if (eal::device_name(devargs).empty()) {
    return fail_as("bad_devargs", "/devargs: must begin with the device's name");
  }
  remove_dead_socket(listens_on(devargs));
  auto device = eal::Ethdev::probe(devargs);
  if (!device) {
    return fail_as(device.error().code == "exists" ? "exists" : "bad_devargs", "/devargs: {}",
                   device.error().message);
  }
  device_ = std::move(*device);
  return {};
}

Result<> TrafficPort::configure() {
  const auto failed = [this](const Error& error) {
    return fail_as("port_failed", "port {}: {}", name(), error.message);
  };
  const Result<> configured = device_->configure({.rx_descriptors = options_.descriptors,
                                                  .tx_descriptors = options_.descriptors,
                                                  .segmented_tx = false});
  if (!configured) return failed(configured.error());
  const auto mtu = static_cast<uint16_t>(options_.max_frame - kEthernetOverhead);
  if (mtu > RTE_ETHER_MTU) {
    if (const Result<bool> set = device_->set_mtu(mtu); !set) return failed(set.error());
  }
  const eal::EthdevOptions& made = device_->options();
  if (auto pool = make_pool(std::max(made.rx_descriptors, made.tx_descriptors)); !pool) return pool;
  if (Result<> set_up = device_->set_up_queues(pool_.get()); !set_up) return failed(set_up.error());
  if (!options_.mac.empty()) {
    const auto mac = packet::parse_mac(options_.mac);
    if (!mac) return fail_as("bad_params", "/mac: '{}' is not a MAC address", options_.mac);
    const Result<bool> set = device_->set_mac(*mac);
    if (!set) return failed(set.error());
    if (!*set) return fail_as("port_failed", "/mac: the device has no MAC address to be set");
  }
  if (Result<> started = device_->start(); !started) {
    return fail_as("port_failed", "/devargs: {}: {}", options_.devargs, started.error().message);
  }
  // Receive all addresses: streams may be sent to any of them.
  if (Result<> set = device_->set_promiscuous(); !set) return failed(set.error());
  return {};
}

TrafficPort::~TrafficPort() = default;

bool TrafficPort::link_up() const {
  if (memif_) return memif_->endpoint().is_up();
  if (shm_) return shm_->is_up();
  return device_->link().up;
}

json TrafficPort::to_json() const {
  packet::MacAddress mac{};
  if (memif_ || shm_) {
    // These have no address: use the option's, or one derived from the arguments, the same
    // at every start.
    mac = packet::parse_mac(options_.mac).value_or(packet::mac_from_name(options_.devargs));
  } else {
    mac = device_->mac();
  }
  json result{{"name", name()},
              {"devargs", options_.devargs},
              {"mac", packet::format_mac(mac)},
              {"link", link_up()}};
  if (json device = counters(); !device.is_null()) result["device"] = std::move(device);
  return result;
}

json TrafficPort::counters() const {
  if (memif_) {
    const port::memif::QueueCounts& in = memif_->endpoint().receive_counts(0);
    const port::memif::QueueCounts& out = memif_->endpoint().send_counts(0);
    return {{"rx_packets", in.packets.read()},
            {"tx_packets", out.packets.read()},
            {"rx_bytes", in.bytes.read()},
            {"tx_bytes", out.bytes.read()},
            {"rx_missed", 0},
            {"rx_errors", in.too_long.read() + in.bad_buffer.read() + in.bad_index.read()},
            {"tx_errors", out.bad_buffer.read() + out.bad_index.read()},
            {"rx_no_buffer", in.no_buffer.read()}};
  }
  if (shm_) {
    const ShmPort::Counts& seen = shm_->counts();
    return {{"rx_packets", seen.rx_packets.read()},
            {"tx_packets", seen.tx_packets.read()},
            {"rx_bytes", seen.rx_bytes.read()},
            {"tx_bytes", seen.tx_bytes.read()},
            {"rx_missed", 0},
            {"rx_errors", shm_->malformed()},
            {"tx_errors", 0},
            {"rx_no_buffer", seen.no_buffer.read()}};
  }
  const rte_eth_stats stats = device_->statistics();
  return {{"rx_packets", stats.ipackets}, {"tx_packets", stats.opackets},
          {"rx_bytes", stats.ibytes},     {"tx_bytes", stats.obytes},
          {"rx_missed", stats.imissed},   {"rx_errors", stats.ierrors},
          {"tx_errors", stats.oerrors},   {"rx_no_buffer", stats.rx_nombuf}};
}

}  // namespace headrace::traffic
