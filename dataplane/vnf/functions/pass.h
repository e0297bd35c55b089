// SPDX-License-Identifier: Apache-2.0
// `pass`: forwards everything that comes in on one port of a pair out of the other; the "L2
// forward" of the papers. Configuration:
//
//   {"pairs": [["0", "1"]],           default: ports in order, two by two
//    "mac": "keep" | "swap" | "set",  default keep: the packet isn't touched at all
//    "set": [{"port": "1", "src": "02:..", "dst": "02:.."}]}   what leaves this port; either or
//    both
//
// A pair of a port with itself reflects.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_pass(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
