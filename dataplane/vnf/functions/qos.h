// SPDX-License-Identifier: Apache-2.0
// `qos`: meters, shapes and schedules what passes between pairs of ports. Configuration:
//
//   {"pairs": ..., "rate_bps": 1000000000, "queue_packets": 256,
//    "classes": [
//      {"name": "voice", "dscp": [46], "priority": 0,
//       "meter": {"cir_bps": 1000000, "cbs": 3000, "pir_bps": 2000000, "pbs": 6000,
//                 "yellow": "pass" | "drop" | 10}},
//      {"name": "bulk", "dscp": [8, 10], "weight": 1},
//      {"name": "rest", "weight": 4}],
//    "default": "rest"}
//
// A packet's class comes from its DSCP; what is not IPv4 or has a DSCP of no class is `default`'s
// (by default the last class). A class has either a strict priority (0 first, to 11) or a weight
// (1 to 255) among at most four that share what the priorities leave. A class's meter is a
// two-rate three-colour marker (RFC 2698, colour-blind) over whole frames, one per direction: red
// is dropped (`policed`), yellow as told (a number: gets that DSCP). Each port of a pair sends at
// most at `rate_bps`, Ethernet's overhead counted; what a full queue doesn't take is dropped
// (`queue_full`). On a reload the old queues empty first.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_qos(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
