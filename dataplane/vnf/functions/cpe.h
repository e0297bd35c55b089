// SPDX-License-Identifier: Apache-2.0
// `cpe`: customer premises equipment in one process: firewall, DPI, NAT and QoS chained (stages.h)
// from the inside to the outside port. Configuration:
//
//   {"inside": "0", "outside": "1",
//    "firewall": {"rules": [{"action": "allow", "from": "inside"}]},
//    "dpi": {"rules": [{"protocol": "BitTorrent", "action": "drop"}]},
//    "nat": {"public": ["203.0.113.1"]},
//    "qos": {"rate_bps": 100000000, "classes": [...]}}
//
// Each stage takes the configuration of the function of its name, with ports named "inside" and
// "outside"; `pairs` and NAT's `inside` and `outside` are preset. A stage without a member is left
// out.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_cpe(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
