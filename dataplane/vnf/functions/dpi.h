// SPDX-License-Identifier: Apache-2.0
// `dpi`: detects the application protocol of each flow between a pair of ports, by nDPI, counts
// by protocol, and drops or marks the flows of chosen ones. Configuration:
//
//   {"pairs": ...,                    as of `pass`
//    "rules": [{"protocol": "BitTorrent", "action": "drop"},
//              {"protocol": "YouTube", "action": "mark", "dscp": 8}],
//    "max_flows": 65536,              known at once
//    "max_detecting": 8192,           of these, not yet decided
//    "max_packets": 10,               of a flow that are looked at; then it is decided by what
//    there
//                                     is, its ports included
//    "timeout_s": 60}                 a flow of which nothing is seen is forgotten
//
// A rule names an application ("YouTube") or what carries it ("TLS"); the application's rule goes
// first. "Unknown" is a protocol, too. Until its flow is decided a packet passes. What has no flow
// (not IP, fragments, no room) passes as well and is counted as untracked: this function adds
// knowledge; to close what isn't known is a firewall's business. At most four VLAN tags are looked
// through.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_dpi(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
