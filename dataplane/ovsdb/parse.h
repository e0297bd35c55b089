// SPDX-License-Identifier: Apache-2.0
// Parsers of the formats inside OVSDB's strings: masks, affinities, datapath ids.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace headrace::ovsdb {

/// An unsigned number that is the whole text. No sign, no blanks, no prefix.
std::optional<uint64_t> parse_unsigned(std::string_view text, int base = 10);

/// other_config:datapath-id: 1 to 16 hexadecimal digits, optionally after 0x, not zero.
Result<uint64_t> parse_datapath_id(std::string_view text);

/// other_config:pmd-cpu-mask: hexadecimal of any length, bit n = CPU n; at least one bit.
Result<std::vector<unsigned>> parse_cpu_mask(std::string_view text);

/// other_config:pmd-rxq-affinity: `queue:cpu[,queue:cpu...]`.
Result<std::map<uint16_t, unsigned>> parse_rxq_affinity(std::string_view text);

}  // namespace headrace::ovsdb
