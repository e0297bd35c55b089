// SPDX-License-Identifier: Apache-2.0
// `nat`: NAPT44 (RFC 3022, RFC 4787, RFC 5382, RFC 5508) between an inside and an outside port.
// Configuration:
//
//   {"inside": "0", "outside": "1", "public": ["203.0.113.1"], "ports": [1024, 65535],
//    "max_mappings": 65536,
//    "timeouts": {"udp_s": 300, "icmp_s": 60, "tcp_established_s": 7440, "tcp_transitory_s": 240},
//    "inside_mac": "02:..", "outside_mac": "02:.."}
//
// Mapping and filtering are endpoint-independent; inside hosts reach each other by their public
// endpoints ("hairpinning"). ICMP errors are translated together with the packet that they quote.
// MAC addresses are not changed, with two exceptions: ARP requests from outside for the public
// addresses are answered, and with inside_mac or outside_mac, packets sent out of that port get
// this destination address and the port's own address as source. Other ARP packets are forwarded.
// Fragments and protocols without ports are dropped (`unsupported`).
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_nat(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
