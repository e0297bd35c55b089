// SPDX-License-Identifier: Apache-2.0
// `bng`: a broadband network gateway, QinQ on the access side, GRE on the core side. Configuration:
//
//   {"access": "0", "core": "1",
//    "core_address": "192.0.2.1", "tunnel_remote": "192.0.2.9", "core_next_hop_mac": "02:..",
//    "subscribers": [{"s_vid": 100, "c_vid": 1, "count": 1000, "address": "100.64.1.0"}]}
//
// `count` subscribers (default 1) have C-VIDs and addresses counting up. Upstream: a frame with
// S-tag (88a8 or 8100) and C-tag must come from the address of the subscriber with these tags (RFC
// 2827; else `denied`); its IPv4 packet, TTL decremented, goes in GRE (RFC 2784) with the key
// (RFC 2890) S-VID * 4096 + C-VID to `tunnel_remote`. Downstream: the key identifies the
// subscriber; it goes to the MAC address that the subscriber last sent from, with its tags
// (`no_neighbor` before it has sent). ARP requests of subscribers for any address but their own are
// answered with the access port's MAC address (RFC 1027, as in VLANs per subscriber), requests on
// the core for core_address too.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_bng(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
