// SPDX-License-Identifier: Apache-2.0
#include "port/kernel/packet_port.h"

#include <net/if.h>
#include <unistd.h>

#include <vector>

#include "base/log.h"
#include "port/kernel/kernel_port.h"

namespace headrace::port {
namespace {

constexpr uint32_t kFrameOverhead = 22;  ///< Ethernet header and two VLAN tags

class PacketPort final : public KernelPort {
 public:
  static Result<std::unique_ptr<Port>> open(const PortConfig& config, uint32_t queues,
                                            uint32_t slots, const std::string& reason);

  uint16_t rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    return sockets_[queue]->receive(packets);
  }
  uint16_t tx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    return sockets_[queue % sockets_.size()]->send(packets, sender(queue));
  }
  [[nodiscard]] uint16_t n_rx_queues() const override {
    return static_cast<uint16_t>(sockets_.size());
  }
  LinkState link() override;
  [[nodiscard]] std::map<std::string, int64_t> statistics() const override;
  [[nodiscard]] StringMap status() const override;

 private:
  PacketPort(const PortConfig& config, std::string reason)
      : KernelPort(config, KernelInterface(config.name)), reason_(std::move(reason)) {}

  std::string reason_;
  uint32_t slots_{0};
  uint32_t index_{0};
  std::vector<std::unique_ptr<PacketSocket>> sockets_;
};

Result<std::unique_ptr<Port>> PacketPort::open(const PortConfig& config, uint32_t queues,
                                               uint32_t slots, const std::string& reason) {
  std::unique_ptr<PacketPort> port(new PacketPort(config, reason));
  port->index_ = port->interface_.index();
  port->slots_ = slots;
  if (Result<> done = port->set_addresses(config); !done) return tl::unexpected(done.error());
  const PacketSocket::Options options{.slots = slots,
                                      .frame = config.mtu.value_or(kDefaultMtu) + kFrameOverhead,
                                      .pool = config.pool};
  for (uint32_t queue = 0; queue < queues; ++queue) {
    auto socket = PacketSocket::open(config.name, port->index_, options);
    if (!socket) return tl::unexpected(socket.error());
    port->sockets_.push_back(std::move(*socket));
  }
  if (queues > 1) {
    // Groups are the network namespace's: unique by process and interface, as far as 16 bits go.
    const auto group = static_cast<uint16_t>(static_cast<uint32_t>(::getpid()) ^ port->index_);
    for (const auto& socket : port->sockets_) {
      if (Result<> joined = socket->join(group); !joined) {
        return fail("{}: {}", config.name, joined.error().message);
      }
    }
  }
  return port;
}

LinkState PacketPort::link() {
  // An interface that was deleted and made again has another index. (A fanout group can't move.)
  const uint32_t index = interface_.index();
  if (index != index_ && index != 0 && sockets_.size() == 1) {
    index_ = index;
    if (Result<> bound = sockets_.front()->bind(index); !bound) {
      log::warn("{}: {}", name_, bound.error().message);
      index_ = 0;  // and again
    } else {
      log::info("{}: the interface is another one now, index {}", name_, index);
    }
  }
  return interface_.link();
}

std::map<std::string, int64_t> PacketPort::statistics() const {
  std::map<std::string, int64_t> statistics;
  for (const auto& socket : sockets_) {
    add_received(socket->counts(), socket->missed(), statistics);
  }
  add_sent(statistics);
  return statistics;
}

StringMap PacketPort::status() const {
  return {{"driver_name", "headrace-packet"},
          {"mode", "af_packet"},
          {"mode_reason", reason_},
          {"n_rxq", std::to_string(sockets_.size())},
          {"n_txq", std::to_string(n_tx_queues())},
          {"n_rxq_desc", std::to_string(slots_)},
          {"numa_id", "0"},
          {"tx_offloads", "checksum, tso4, tso6, uso"}};
}

}  // namespace

Result<std::unique_ptr<Port>> open_packet_port(const PortConfig& config, Options& options,
                                               const std::string& reason) {
  const Result<uint32_t> queues = options.number("n_rxq", 1, 1, 16);
  if (!queues) return tl::unexpected(queues.error());
  const Result<uint32_t> slots = options.power_of_two("n_rxq_desc", 1024, 32, 16384);
  if (!slots) return tl::unexpected(slots.error());
  if (Result<> rest = options.finish(); !rest) return tl::unexpected(rest.error());
  return PacketPort::open(config, *queues, *slots, reason);
}

}  // namespace headrace::port
