// SPDX-License-Identifier: Apache-2.0
// `bng`: a broadband network gateway, QinQ on the access side, GRE on the core side. Configuration:
//
//   {"access": "0", "core": "1",
//    "core_address": "192.0.2.1", "tunnel_remote": "192.0.2.9", "core_next_hop_mac": "02:..",
//    "subscribers": [{"s_vid": 100, "c_vid": 1, "count": 1000, "address": "100.64.1.0"}]}
//
// An entry stands for `count` subscribers (default 1) with consecutive C-VIDs and addresses.
// Upstream: a frame with an S-tag (88a8 or 8100) and a C-tag must come from the address of the
// subscriber with these tags (RFC 2827; else `denied`); the TTL of its IPv4 packet is decremented,
// and the packet is sent to `tunnel_remote` in GRE (RFC 2784) with the key (RFC 2890) S-VID * 4096
// + C-VID. Downstream: the key identifies the subscriber; the packet is sent with the subscriber's
// tags to the MAC address that the subscriber last sent from (`no_neighbor` before the first
// packet). ARP requests of subscribers for any address but their own are answered with the access
// port's MAC address (RFC 1027, as in VLANs per subscriber); on the core port, requests for
// core_address are answered.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_bng(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
