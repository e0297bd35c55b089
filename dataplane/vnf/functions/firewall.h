// SPDX-License-Identifier: Apache-2.0
// `firewall`: a stateful packet filter between pairs of ports. Configuration:
//
//   {"pairs": [["0", "1"]],
//    "rules": [{"action": "allow" | "deny", "from": "0", "proto": "tcp" | "udp" | "icmp" | 0..255,
//               "src": "10.0.0.0/8", "dst": "0.0.0.0/0", "src_port": "1024-65535", "dst_port":
//               "80"}],
//    "default": "deny", "stateful": true, "arp": true, "max_sessions": 65536,
//    "timeouts": {"opening_s": 30, "tcp_established_s": 7440, "tcp_closing_s": 30, "other_s": 60}}
//
// The first rule that holds decides; without one, `default`. Stateful: what an allowed packet opens
// is a session, and its packets pass in both directions without another look at the rules; TCP
// opens a session with a SYN only. An ICMP error passes with the session that it is about. What
// isn't IPv4 is dropped (`unsupported`), but for ARP. So are fragments: their ports can't be seen.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_firewall(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
