// SPDX-License-Identifier: Apache-2.0
// `router`: an IPv4 router (RFC 1812) and, if an interface has an IPv6 address, an IPv6 router
// (ipv6_router.h). Longest prefix match, ARP and neighbor discovery with ageing, TTL, ICMP errors
// and echo. Configuration:
//
//   {"interfaces": [{"port": "0", "address": "10.0.0.1/24"},
//                   {"port": "0", "address": "2001:db8::1/64"}],
//    "routes": [{"prefix": "10.2.0.0/16", "via": "10.0.0.2"},
//               {"prefix": "2001:db8:2::/48", "via": "2001:db8::2"}],
//    "neighbors": [{"address": "10.0.0.2", "mac": "02:00:00:00:00:02"}],
//    "mtu": 1500, "arp_timeout_s": 300, "icmp_errors_per_s": 1000, "neighbor_capacity": 4096}
//
// A burst is processed in three passes: headers are checked, and packets other than plain
// forwarding are handled apart; all destinations are looked up at once; each packet gets its new
// header. Packets to an unresolved next hop are queued until ARP resolves it.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_router(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
