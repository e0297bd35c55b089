// SPDX-License-Identifier: Apache-2.0
// `firewall`: a stateful packet filter between pairs of ports. Configuration:
//
//   {"pairs": [["0", "1"]],
//    "rules": [{"action": "allow" | "deny", "from": "0", "proto": "tcp" | "udp" | "icmp" | 0..255,
//               "src": "10.0.0.0/8", "dst": "0.0.0.0/0",
//               "src_port": "1024-65535", "dst_port": "80"}],
//    "default": "deny", "stateful": true, "arp": true, "max_sessions": 65536,
//    "timeouts": {"opening_s": 30, "tcp_established_s": 7440, "tcp_closing_s": 30, "other_s": 60}}
//
// The first matching rule decides; without one, `default`. Stateful: a packet that a rule allows
// opens a session, whose packets then pass in both directions without matching the rules again; for
// TCP only a SYN opens a session. An ICMP error passes if the packet that it quotes belongs to a
// session. Packets other than IPv4 and ARP are dropped (`unsupported`). So are fragments, since
// only the first one has ports.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_firewall(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
