// SPDX-License-Identifier: Apache-2.0
#include "port/port.h"

#include "base/log.h"
#include "port/ethdev.h"
#include "port/kernel/packet_port.h"
#include "port/kernel/tap_port.h"
#include "port/kinds.h"
#include "port/memif_port.h"
#include "port/options.h"
#include "port/shm_port.h"
#include "port/vhost_port.h"

namespace headrace::port {

namespace {

struct Kind {
  std::string_view type;
  Result<EthdevRequest> (*request)(const PortConfig& config, Options& options);
};

constexpr std::array kKinds = {
    Kind{"dpdk", dpdk_request},
};

/// The kinds without a DPDK device; `system` has one with AF_XDP.
constexpr std::string_view kInternal = "internal";
constexpr std::string_view kMemif = "memif";
constexpr std::string_view kShm = "shm";
constexpr std::string_view kSystem = "system";
constexpr std::string_view kTap = "tap";
constexpr std::string_view kVhostUser = "dpdkvhostuser";
constexpr std::string_view kVhostUserClient = "dpdkvhostuserclient";

/// Options that every kind of device understands.
Result<> common_options(Options& options, EthdevRequest& request) {
  const Result<uint32_t> rx_queues = options.number("n_rxq", request.rx_queues, 1, 64);
  if (!rx_queues) return tl::unexpected(rx_queues.error());
  request.rx_queues = static_cast<uint16_t>(*rx_queues);
  if (!request.tx_queue_per_worker) request.tx_queues = request.rx_queues;
  const Result<uint32_t> rx_descriptors =
      options.power_of_two("n_rxq_desc", request.rx_descriptors, 32, 16384);
  if (!rx_descriptors) return tl::unexpected(rx_descriptors.error());
  request.rx_descriptors = static_cast<uint16_t>(*rx_descriptors);
  const Result<uint32_t> tx_descriptors =
      options.power_of_two("n_txq_desc", request.tx_descriptors, 32, 16384);
  if (!tx_descriptors) return tl::unexpected(tx_descriptors.error());
  request.tx_descriptors = static_cast<uint16_t>(*tx_descriptors);
  return options.finish();
}

/// By AF_XDP, or by packet sockets where that is asked for, better, or all that there is.
Result<std::unique_ptr<Port>> open_system_port(const PortConfig& config, Options& options) {
  Result<SystemChoice> choice = choose_system_mode(config, options);
  if (!choice) return tl::unexpected(choice.error());
  if (choice->xdp) {
    if (Result<> common = common_options(options, *choice->xdp); !common) {
      return tl::unexpected(common.error());
    }
    Result<std::unique_ptr<Port>> opened = EthdevPort::open(config, std::move(*choice->xdp));
    if (opened || !choice->or_packet_socket) return opened;
    log::info("{}", opened.error().message);
  }
  return open_packet_port(config, options, choice->reason);
}

}  // namespace

std::vector<std::string_view> port_types() {
  std::vector<std::string_view> types;
  for (const Kind& kind : kKinds) types.push_back(kind.type);
  for (const std::string_view type :
       {kInternal, kMemif, kShm, kSystem, kTap, kVhostUser, kVhostUserClient}) {
    types.push_back(type);
  }
  return types;
}

Result<std::unique_ptr<Port>> open_port(const PortConfig& config) {
  Options options(config);
  if (config.type == kMemif) return open_memif_port(config, options);
  if (config.type == kShm) return open_shm_port(config, options);
  if (config.type == kVhostUser || config.type == kVhostUserClient) {
    return open_vhost_port(config, options);
  }
  if (config.type == kSystem) return open_system_port(config, options);
  if (config.type == kTap || config.type == kInternal) return open_tap_port(config, options);
  for (const Kind& kind : kKinds) {
    if (kind.type != config.type) continue;
    Result<EthdevRequest> request = kind.request(config, options);
    if (!request) return tl::unexpected(request.error());
    if (Result<> common = common_options(options, *request); !common) {
      return tl::unexpected(common.error());
    }
    return EthdevPort::open(config, std::move(*request));
  }
  return fail("{}: '{}' is no type of port; Open_vSwitch:iface_types has them all", config.name,
              config.type);
}

}  // namespace headrace::port
