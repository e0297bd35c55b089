// SPDX-License-Identifier: Apache-2.0
#include "vnf/device.h"

#include "base/log.h"
#include "vnf/eth_device.h"
#include "vnf/memif_device.h"
#include "vnf/shm_device.h"

namespace headrace::vnf {

Result<std::unique_ptr<Device>> Device::open(const PortConfig& config, rte_mempool* pool,
                                             asio::io_context& io) {
  if (config.shm) return ShmDevice::open(config);
  auto memif = port::memif::read_net_memif(config.devargs);
  if (!memif) return fail("port {}: {}", config.name, memif.error().message);
  if (*memif) return std::make_unique<MemifDevice>(config, std::move(**memif), pool, io);
  return EthDevice::open(config, pool);
}

void Device::note_link(bool up) {
  if (up == link_up_) return;
  log::info("port {}: link {}", config_.name, up ? "up" : "down");
  link_up_ = up;
}

Json Device::status() const {
  return {{"rx_packets", rx_packets_.read()}, {"rx_bytes", rx_bytes_.read()},
          {"tx_packets", tx_packets_.read()}, {"tx_bytes", tx_bytes_.read()},
          {"tx_dropped", tx_dropped_.read()}, {"rx_missed", missed()},
          {"link", link_up_ ? "up" : "down"}, {"mac", packet::format_mac(mac_)}};
}

}  // namespace headrace::vnf
