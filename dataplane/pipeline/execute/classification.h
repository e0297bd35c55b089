// SPDX-License-Identifier: Apache-2.0
// The middle stage: a burst goes through the tables, upwards, and is split by rule and next table.
#pragma once

#include <array>

#include "pipeline/execute/execution.h"

namespace headrace::pipeline {

/// Runs tables as long as packets wait for one, in ascending order.
void run_tables(Execution& x) noexcept;

/// The positions at which `rules` holds `rule`.
[[nodiscard]] PacketSet positions_of(const std::array<uint32_t, kBurst>& rules,
                                     uint32_t rule) noexcept;
/// Its portable variant.
[[nodiscard]] inline PacketSet positions_of_portable(const std::array<uint32_t, kBurst>& rules,
                                                     uint32_t rule) noexcept {
  PacketSet found = 0;
  for (size_t k = 0; k < kBurst; ++k) found |= PacketSet{rules[k] == rule} << k;
  return found;
}

}  // namespace headrace::pipeline
