// SPDX-License-Identifier: Apache-2.0
#include "port/vhost_port.h"

#include "packet/mac_address.h"
#include "port/vhost/data_path.h"
#include "port/vhost/device.h"

namespace headrace::port {
namespace {

constexpr uint32_t kMaxRetries = 32;  // as OVS
constexpr uint32_t kDefaultRetries = 8;
constexpr uint32_t kMaxMtu = 65535 - 18;

/// For people.
std::string offload_names(uint64_t takes) {
  if (takes == 0) return "none";
  std::string names = "checksum";
  if ((takes & RTE_MBUF_F_TX_IPV4) != 0) names += ", tso4";
  if ((takes & RTE_MBUF_F_TX_IPV6) != 0) names += ", tso6";
  return names;
}

class VhostPort final : public Port {
 public:
  VhostPort(const PortConfig& config, const vhost::DataPathConfig& data)
      : name_(config.name),
        mac_(config.mac.value_or(packet::mac_from_name(config.name))),
        mtu_(config.mtu.value_or(kDefaultMtu)),
        data_(data) {}

  Result<> connect(vhost::DeviceConfig config) {
    Result<std::unique_ptr<vhost::Device>> device = vhost::Device::open(std::move(config), data_);
    if (!device) return tl::unexpected(device.error());
    device_ = std::move(*device);
    return {};
  }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] pipeline::PortIo& io() override { return data_; }
  [[nodiscard]] uint16_t n_rx_queues() const override { return data_.rx_queues(); }
  [[nodiscard]] uint16_t n_tx_queues() const override { return data_.rx_queues(); }
  [[nodiscard]] bool tx_is_concurrent() const override { return true; }
  [[nodiscard]] bool io_knows_link() const override { return true; }
  [[nodiscard]] uint64_t tx_offloads() const noexcept override { return data_.takes(); }
  LinkState link() override { return {.up = device_->look()}; }
  [[nodiscard]] MacAddress mac() const override { return mac_; }
  [[nodiscard]] uint32_t mtu() const override { return mtu_; }
  [[nodiscard]] std::optional<uint32_t> ifindex() const override { return std::nullopt; }
  Result<> set_mtu(uint32_t mtu) override {
    if (mtu > kMaxMtu) return fail("{}: MTU {}: at most {} is possible", name_, mtu, kMaxMtu);
    mtu_ = mtu;  // what a guest can take is decided by its buffers
    return {};
  }
  [[nodiscard]] std::map<std::string, int64_t> statistics() const override {
    return {{"ovs_tx_failure_drops", static_cast<int64_t>(data_.refused())},
            {"ovs_tx_mtu_exceeded_drops", static_cast<int64_t>(data_.too_long())},
            {"tx_dropped", static_cast<int64_t>(data_.too_long())},
            {"rx_errors", static_cast<int64_t>(data_.malformed())},
            {"packed_burst_packets", static_cast<int64_t>(data_.packed_rings().sent_here())},
            {"ovs_tx_retries", static_cast<int64_t>(data_.retries())},
            {"guest_notifications", static_cast<int64_t>(device_->notifications())}};
  }
  [[nodiscard]] StringMap status() const override {
    StringMap status = device_->status();
    status["driver_name"] = "librte_vhost";
    status["n_rxq"] = std::to_string(n_rx_queues());
    status["n_txq"] = std::to_string(n_tx_queues());
    status["tx_offloads"] = offload_names(data_.takes());
    return status;
  }

 private:
  std::string name_;
  MacAddress mac_;
  uint32_t mtu_;
  vhost::DataPath data_;
  std::unique_ptr<vhost::Device> device_;  ///< last: it uses the data path to its end
};

/// <rundir>/<port name>, if a socket can have that path.
Result<std::string> own_socket(const PortConfig& config) {
  if (config.name.find('/') != std::string::npos) {
    return fail("{}: the port's name becomes a socket's: it must have no '/'", config.name);
  }
  const std::string path = config.rundir + "/" + config.name;
  if (Result<> checked = check_socket_path(config.name, path); !checked) {
    return tl::unexpected(checked.error());
  }
  return path;
}

}  // namespace

Result<std::unique_ptr<Port>> open_vhost_port(const PortConfig& config, Options& options) {
  const bool client = config.type == "dpdkvhostuserclient";
  const Result<std::string> socket =
      client ? options.socket_path("vhost-server-path") : own_socket(config);
  if (!socket) return tl::unexpected(socket.error());
  const Result<uint32_t> queues = options.number("n_rxq", 1, 1, 64);
  if (!queues) return tl::unexpected(queues.error());
  const Result<uint32_t> retries =
      options.number("tx-retries-max", kDefaultRetries, 0, kMaxRetries);
  if (!retries) return tl::unexpected(retries.error());
  const Result<bool> offloads = options.flag("offloads", true);
  if (!offloads) return tl::unexpected(offloads.error());
  const Result<bool> iommu = options.flag("iommu", false);
  if (!iommu) return tl::unexpected(iommu.error());
  const Result<bool> postcopy = options.flag("postcopy", false);
  if (!postcopy) return tl::unexpected(postcopy.error());
  for (const char* key : {"n_rxq_desc", "n_txq_desc"}) {
    if (options.text(key)) {
      return fail(
          "{}: options:{} is not this side's to set: the guest decides the size of its "
          "rings (in QEMU rx_queue_size and tx_queue_size)",
          config.name, key);
    }
  }
  if (Result<> rest = options.finish(); !rest) return tl::unexpected(rest.error());
  if (!config.wait_for_workers) {
    return fail("{}: a vhost-user port needs a way to wait for workers", config.name);
  }
  Result<std::shared_ptr<vhost::FramePool>> pool = vhost::FramePool::of(config.pool);
  if (!pool) return fail("{}: {}", config.name, pool.error().message);
  auto port = std::make_unique<VhostPort>(
      config, vhost::DataPathConfig{.pool = std::move(*pool),
                                    .rx_queues = static_cast<uint16_t>(*queues),
                                    .tx_retries = *retries});
  Result<> connected = port->connect({.name = config.name,
                                      .socket = *socket,
                                      .client = client,
                                      .offloads = *offloads,
                                      .iommu = *iommu,
                                      .postcopy = *postcopy,
                                      .on_link_event = config.on_link_event,
                                      .wait_for_workers = config.wait_for_workers});
  if (!connected) return tl::unexpected(connected.error());
  return port;
}

}  // namespace headrace::port
