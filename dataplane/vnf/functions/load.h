// SPDX-License-Identifier: Apache-2.0
// `cpu` and `memory`: functions of a known cost that forward between pairs of ports, as `pass`
// does.
//
//   cpu:    {"pairs": ..., "units": 10}
// A unit is one step of xorshift64* (Vigna 2016). Each depends on the one before: about 6 core
// cycles, independent of memory and of the core's issue width. The input is the packet's first
// octets, so that the compiler can't hoist the computation.
//   memory: {"pairs": ..., "bytes": 64, "working_set": 1048576, "write": false}
// Touches `bytes` of a table of `working_set` octets per packet, a cache line at a time, at
// pseudo-random places; each place depends on the line read before.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_cpu(ConfigReader& config, const FunctionContext& context);
std::unique_ptr<Function> make_memory(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
