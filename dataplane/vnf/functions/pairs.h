// SPDX-License-Identifier: Apache-2.0
// Pairs of ports, for functions that work on what passes between two: the member `pairs`,
// [["0", "1"], ...]; by default the ports in order, two by two.
#pragma once

#include <cstdint>
#include <vector>

#include "vnf/function.h"

namespace headrace::vnf {

/// A port outside every pair.
inline constexpr uint16_t kUnpaired = UINT16_MAX;

/// By port: where its packets leave, or kUnpaired. A pair of a port with itself reflects.
std::vector<uint16_t> read_pairs(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
