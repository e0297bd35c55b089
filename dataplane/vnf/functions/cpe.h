// SPDX-License-Identifier: Apache-2.0
// `cpe`: what a customer's box does, in one process: firewall, DPI, NAT and QoS in a row
// (stages.h), from the inside to the outside port. Configuration:
//
//   {"inside": "0", "outside": "1",
//    "firewall": {"rules": [{"action": "allow", "from": "inside"}]},
//    "dpi": {"rules": [{"protocol": "BitTorrent", "action": "drop"}]},
//    "nat": {"public": ["203.0.113.1"]},
//    "qos": {"rate_bps": 100000000, "classes": [...]}}
//
// Each stage takes what the function of its name takes, with ports named "inside" and "outside"
// (which `pairs` and NAT's `inside`, `outside` have already); one that is left out isn't there.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_cpe(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
