// SPDX-License-Identifier: Apache-2.0
#include "port/memif_port.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <bit>

#include "packet/mac_address.h"
#include "port/memif/endpoint.h"

namespace headrace::port {
namespace {

constexpr uint32_t kMaxMtu = 65535 - 18;

class MemifPort final : public Port, public pipeline::PortIo {
 public:
  MemifPort(const PortConfig& config, std::shared_ptr<memif::Endpoint> endpoint)
      : name_(config.name),
        pool_(config.pool),
        endpoint_(std::move(endpoint)),
        mac_(config.mac.value_or(packet::mac_from_name(config.name))),
        mtu_(config.mtu.value_or(kDefaultMtu)) {}

  uint16_t rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    return endpoint_->receive(queue, pool_, packets);
  }
  uint16_t tx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    return endpoint_->send(queue, packets);
  }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] pipeline::PortIo& io() override { return *this; }
  [[nodiscard]] uint16_t n_rx_queues() const override { return endpoint_->config().queues; }
  [[nodiscard]] uint16_t n_tx_queues() const override { return endpoint_->config().queues; }
  [[nodiscard]] bool io_knows_link() const override { return true; }
  LinkState link() override { return {.up = endpoint_->is_up()}; }
  [[nodiscard]] MacAddress mac() const override { return mac_; }
  [[nodiscard]] uint32_t mtu() const override { return mtu_; }
  [[nodiscard]] std::optional<uint32_t> ifindex() const override { return std::nullopt; }
  Result<> set_mtu(uint32_t mtu) override {
    if (mtu > kMaxMtu) return fail("{}: MTU {}: at most {} is possible", name_, mtu, kMaxMtu);
    mtu_ = mtu;  // frames longer than a buffer of the ring take several
    return {};
  }
  [[nodiscard]] std::map<std::string, int64_t> statistics() const override;
  [[nodiscard]] StringMap status() const override;

 private:
  std::string name_;
  rte_mempool* pool_;
  std::shared_ptr<memif::Endpoint> endpoint_;
  MacAddress mac_;
  uint32_t mtu_;
};

std::map<std::string, int64_t> MemifPort::statistics() const {
  std::map<std::string, int64_t> sums;
  const auto add = [&sums](const char* name, const Counter& count) {
    sums[name] += static_cast<int64_t>(count.read());
  };
  for (uint16_t queue = 0; queue < n_rx_queues(); ++queue) {
    const memif::QueueCounts& in = endpoint_->receive_counts(queue);
    add("rx_packets", in.packets);
    add("rx_bytes", in.bytes);
    add("rx_no_buffer_errors", in.no_buffer);
    add("rx_length_errors", in.too_long);
    add("rx_descriptor_errors", in.bad_buffer);
    add("rx_ring_errors", in.bad_index);
    add("rx_dropped", in.too_long);
    add("rx_errors", in.bad_buffer);
    const memif::QueueCounts& out = endpoint_->send_counts(queue);
    add("tx_packets", out.packets);
    add("tx_bytes", out.bytes);
    add("tx_descriptor_errors", out.bad_buffer);
    add("tx_ring_errors", out.bad_index);
  }
  return sums;
}

StringMap MemifPort::status() const {
  const memif::EndpointConfig& config = endpoint_->config();
  StringMap status{{"driver_name", "headrace-memif"},
                   {"socket", config.socket},
                   {"id", std::to_string(config.id)},
                   {"role", config.role == memif::Role::server ? "server" : "client"},
                   {"n_rxq", std::to_string(config.queues)},
                   {"n_txq", std::to_string(config.queues)}};
  if (!endpoint_->peer().empty()) status["peer"] = endpoint_->peer();
  if (!endpoint_->last_error().empty()) status["last_error"] = endpoint_->last_error();
  return status;
}

}  // namespace

Result<std::unique_ptr<Port>> open_memif_port(const PortConfig& config, Options& options) {
  memif::EndpointConfig endpoint{.name = config.name, .on_link_event = config.on_link_event};
  const Result<std::string> socket = options.socket_path("socket");
  if (!socket) return tl::unexpected(socket.error());
  endpoint.socket = *socket;
  const Result<uint32_t> id = options.number("id", 0, 0, UINT32_MAX);
  if (!id) return tl::unexpected(id.error());
  endpoint.id = *id;
  const Result<std::string> role = options.plain("role", "server");
  if (!role) return tl::unexpected(role.error());
  if (*role != "server" && *role != "client") {
    return fail("{}: options:role is '{}': it must be server or client", config.name, *role);
  }
  endpoint.role = *role == "server" ? memif::Role::server : memif::Role::client;
  const Result<std::string> secret = options.plain("secret", "");
  if (!secret) return tl::unexpected(secret.error());
  if (secret->size() >= memif::kSecretSize) {
    return fail("{}: options:secret has {} characters: at most {} fit", config.name, secret->size(),
                memif::kSecretSize - 1);
  }
  endpoint.secret = *secret;
  const Result<uint32_t> queues = options.number("n_rxq", 1, 1, 64);
  if (!queues) return tl::unexpected(queues.error());
  endpoint.queues = static_cast<uint16_t>(*queues);
  // A ring has as many slots as either of OVS's options asks for, unless it is said outright.
  const Result<uint32_t> rx_slots = options.power_of_two("n_rxq_desc", 1024, 32, 16384);
  if (!rx_slots) return tl::unexpected(rx_slots.error());
  const Result<uint32_t> tx_slots = options.power_of_two("n_txq_desc", *rx_slots, 32, 16384);
  if (!tx_slots) return tl::unexpected(tx_slots.error());
  const Result<uint32_t> ring_size =
      options.power_of_two("ring-size", std::max(*rx_slots, *tx_slots), 32, 16384);
  if (!ring_size) return tl::unexpected(ring_size.error());
  endpoint.log2_ring_size = static_cast<unsigned>(std::countr_zero(*ring_size));
  const Result<uint32_t> buffer_size = options.number("buffer-size", 2048, 128, 65535);
  if (!buffer_size) return tl::unexpected(buffer_size.error());
  endpoint.buffer_size = *buffer_size;
  const Result<bool> unsealed = options.flag("unsealed-memory", false);
  if (!unsealed) return tl::unexpected(unsealed.error());
  endpoint.trusts_memory = *unsealed;
  const Result<uint32_t> memory_mb =
      options.number("memory-limit", memif::kDefaultMemoryMb, 1, 1u << 20);
  if (!memory_mb) return tl::unexpected(memory_mb.error());
  endpoint.memory_limit = uint64_t{*memory_mb} << 20;
  if (Result<> rest = options.finish(); !rest) return tl::unexpected(rest.error());
  if (config.io == nullptr || config.reclaimer == nullptr) {
    return fail("{}: a memif port needs an event loop and a reclaimer", config.name);
  }
  auto opened = memif::Endpoint::open(*config.io, *config.reclaimer, std::move(endpoint));
  if (!opened) return tl::unexpected(opened.error());
  return std::make_unique<MemifPort>(config, std::move(*opened));
}

}  // namespace headrace::port
