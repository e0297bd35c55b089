// SPDX-License-Identifier: Apache-2.0
// Ports of type `system`: a kernel interface that exists (a veth end, a NIC without DPDK driver),
// through an AF_PACKET socket with mapped rings.
//
// Known limits of net_af_packet: the kernel's own stack keeps receiving the interface's frames; a
// peer that leaves checksums to its device (a veth end, by default) sends them unfinished:
// `ethtool -K PEER tx off`.
#include <net/if.h>

#include "port/kinds.h"

namespace headrace::port {

Result<EthdevRequest> system_request(const PortConfig& config, Options& options) {
  if (config.name.find(',') != std::string::npos || ::if_nametoindex(config.name.c_str()) == 0) {
    return fail("{}: there is no kernel interface of that name", config.name);
  }
  const Result<uint32_t> queues = options.number("n_rxq", 1, 1, 16);
  if (!queues) return tl::unexpected(queues.error());
  EthdevRequest request;
  request.devargs = fmt::format("{},iface={},qpairs={},framecnt=1024",
                                vdev_name("net_af_packet", config.name), config.name, *queues);
  request.rx_queues = request.tx_queues = static_cast<uint16_t>(*queues);
  request.tx_queue_per_worker = false;  // as many transmit as receive queues
  request.kernel_interface = config.name;
  request.status["mode"] = "af_packet";
  return request;
}

}  // namespace headrace::port
