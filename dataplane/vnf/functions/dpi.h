// SPDX-License-Identifier: Apache-2.0
// `dpi`: detects the application protocol of each flow between a pair of ports with nDPI, counts by
// protocol, and drops or marks the flows of selected protocols. Configuration:
//
//   {"pairs": ...,                    as of `pass`
//    "rules": [{"protocol": "BitTorrent", "action": "drop"},
//              {"protocol": "YouTube", "action": "mark", "dscp": 8}],
//    "max_flows": 65536,
//    "max_detecting": 8192,           flows under detection at most, of max_flows
//    "max_packets": 10,               of a flow, given to nDPI; then the best guess decides
//    "timeout_s": 60}                 a flow without packets for this long is removed
//
// A rule names an application ("YouTube") or its carrier protocol ("TLS"); the application's rule
// takes precedence. "Unknown" is a protocol, too. Until its flow is decided, a packet passes.
// Packets without a flow (not IP, fragments, table full) pass as well and are counted as untracked:
// blocking unidentified traffic is the task of a firewall. At most four VLAN tags are skipped.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_dpi(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
