// SPDX-License-Identifier: Apache-2.0
// Pairs of ports, for functions that process the traffic between two ports: the member `pairs`,
// [["0", "1"], ...]; by default consecutive ports, two by two.
#pragma once

#include <cstdint>
#include <vector>

#include "vnf/function.h"

namespace headrace::vnf {

/// A port outside every pair.
inline constexpr uint16_t kUnpaired = UINT16_MAX;

/// By input port: the output port, or kUnpaired. A port paired with itself reflects its packets.
std::vector<uint16_t> read_pairs(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
