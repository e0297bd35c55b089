// SPDX-License-Identifier: Apache-2.0
#include "port/port.h"

#include "base/log.h"
#include "port/ethdev.h"
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
    Kind{"internal", tap_request},
    Kind{"system", system_request},
    Kind{"tap", tap_request},
};

/// The kinds without a DPDK device.
constexpr std::string_view kMemif = "memif";
constexpr std::string_view kShm = "shm";
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

}  // namespace

std::vector<std::string_view> port_types() {
  std::vector<std::string_view> types;
  for (const Kind& kind : kKinds) types.push_back(kind.type);
  types.emplace_back(kMemif);
  types.emplace_back(kShm);
  types.emplace_back(kVhostUser);
  types.emplace_back(kVhostUserClient);
  return types;
}

Result<std::unique_ptr<Port>> open_port(const PortConfig& config) {
  Options options(config);
  if (config.type == kMemif) return open_memif_port(config, options);
  if (config.type == kShm) return open_shm_port(config, options);
  if (config.type == kVhostUser || config.type == kVhostUserClient) {
    return open_vhost_port(config, options);
  }
  for (const Kind& kind : kKinds) {
    if (kind.type != config.type) continue;
    Result<EthdevRequest> request = kind.request(config, options);
    if (!request) return tl::unexpected(request.error());
    if (Result<> common = common_options(options, *request); !common) {
      return tl::unexpected(common.error());
    }
    const std::shared_ptr<EthdevRequest> otherwise = request->otherwise;
    Result<std::unique_ptr<Port>> opened = EthdevPort::open(config, std::move(*request));
    if (opened || !otherwise) return opened;
    log::info("{}", opened.error().message);
    if (Result<> common = common_options(options, *otherwise); !common) {
      return tl::unexpected(common.error());
    }
    return EthdevPort::open(config, std::move(*otherwise));
  }
  return fail("{}: '{}' is no type of port; Open_vSwitch:iface_types has them all", config.name,
              config.type);
}

}  // namespace headrace::port
