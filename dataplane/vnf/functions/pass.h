// SPDX-License-Identifier: Apache-2.0
// `pass`: forwards all packets between the two ports of a pair; the "L2 forward" of the papers.
// Configuration:
//
//   {"pairs": [["0", "1"]],           default: ports in order, two by two
//    "mac": "keep" | "swap" | "set",  default keep: the packet isn't touched at all
//    "set": [{"port": "1", "src": "02:..", "dst": "02:.."}]}
//        addresses of packets sent out of this port; `src`, `dst` or both
//
// A port paired with itself reflects its packets.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_pass(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
