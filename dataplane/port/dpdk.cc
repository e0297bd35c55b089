// SPDX-License-Identifier: Apache-2.0
// Ports of type `dpdk`: a device that DPDK has a driver for, physical or virtual.
#include "port/kinds.h"

namespace headrace::port {

Result<EthdevRequest> dpdk_request(const PortConfig& config, Options& options) {
  const std::optional<std::string> devargs = options.text("dpdk-devargs");
  if (!devargs || devargs->empty()) {
    return fail(
        "{}: type dpdk needs options:dpdk-devargs, a PCI address (0000:03:00.0) or a virtual "
        "device (net_null0,size=64)",
        config.name);
  }
  EthdevRequest request;
  request.devargs = *devargs;
  request.status["dpdk-devargs"] = *devargs;
  return request;
}

}  // namespace headrace::port
