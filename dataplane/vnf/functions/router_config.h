// SPDX-License-Identifier: Apache-2.0
// The configuration of a router: addresses, routes and fixed neighbors for IPv4 and IPv6. An
// entry's address family is that of its address.
#pragma once

#include <vector>

#include "vnf/function.h"
#include "vnf/functions/ipv6_router.h"

namespace headrace::vnf {

/// An address of the router on a port, with the subnet behind it.
struct RouterInterface {
  uint16_t port;
  Ipv4Address address;
  Ipv4Prefix subnet;
};

struct RouterRoute {
  Ipv4Prefix prefix;
  Ipv4Address via;
  uint16_t port;  ///< of the interface whose subnet contains `via`
};

struct RouterNeighbor {
  Ipv4Address address;
  MacAddress mac;
  uint16_t port;
};

struct RouterConfig {
  std::vector<RouterInterface> interfaces;
  std::vector<RouterRoute> routes;
  std::vector<RouterNeighbor> neighbors;
  uint32_t arp_timeout_s{300};
  uint32_t icmp_errors_per_s{1000};
  uint32_t neighbor_capacity{4096};
  uint16_t mtu{1500};
  Ipv6RouterConfig ipv6;  ///< without interfaces: no IPv6

  /// The interface whose subnet contains the address, or null.
  [[nodiscard]] const RouterInterface* interface_towards(Ipv4Address address) const;
  /// The first interface on a port, or null.
  [[nodiscard]] const RouterInterface* interface_on(uint16_t port) const;
};

RouterConfig read_router(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
