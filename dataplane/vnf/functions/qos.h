// SPDX-License-Identifier: Apache-2.0
// `qos`: meters, shapes and schedules the traffic between pairs of ports. Configuration:
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
// The DSCP determines a packet's class; packets that are not IPv4 or whose DSCP has no class are in
// `default` (if absent, the last class). A class has either a strict priority (0, the highest, to
// 11) or a weight (1 to 255) among at most four classes that share the rate left by the priorities.
// A class's meter is a two-rate three-colour marker (RFC 2698, colour-blind) over whole frames, one
// per direction: red packets are dropped (`policed`); yellow ones are handled as `yellow` says (a
// number sets that DSCP). Each port of a pair sends at most at `rate_bps`, Ethernet's overhead
// included; packets that don't fit in a queue are dropped (`queue_full`). After a reload the old
// queues are emptied first.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_qos(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
