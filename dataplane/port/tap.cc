// SPDX-License-Identifier: Apache-2.0
// Ports of types `internal` and `tap`: a kernel interface, named like the port, that exists while
// the port does. What the kernel sends there we receive.
#include <net/if.h>

#include "port/kinds.h"

namespace headrace::port {

Result<EthdevRequest> tap_request(const PortConfig& config, Options& options) {
  (void)options;
  if (config.name.size() >= IFNAMSIZ || config.name.find_first_of("/, :") != std::string::npos) {
    return fail("{}: the name of a kernel interface has at most {} characters, no '/', ',' or ':'",
                config.name, IFNAMSIZ - 1);
  }
  if (::if_nametoindex(config.name.c_str()) != 0) {
    return fail("{}: there is a kernel interface of that name already; remove it first",
                config.name);
  }
  if (config.mtu.value_or(kDefaultMtu) > kDefaultMtu) {
    return fail(
        "{}: MTU {}: DPDK's net_tap sends at most {}; a veth pair and type system take more",
        config.name, *config.mtu, kDefaultMtu);
  }
  EthdevRequest request;
  request.devargs = fmt::format("{},iface={}", vdev_name("net_tap", config.name), config.name);
  request.tx_queue_per_worker = false;  // net_tap wants as many transmit as receive queues
  request.poll_is_expensive = true;     // a readv() each
  // What net_tap calls descriptors are the buffers that one frame may be spread over.
  request.rx_descriptors = 32;
  request.kernel_interface = config.name;
  // As in OVS: an internal port is down until `ip link set NAME up`, so that a kernel that is not
  // asked to speak there (IPv6 does at once) does not.
  request.leave_down = config.type == "internal";
  return request;
}

}  // namespace headrace::port
