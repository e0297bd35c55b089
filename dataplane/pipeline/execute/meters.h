// SPDX-License-Identifier: Apache-2.0
// Meters (section 5.7), on the packets of a burst: their counters and token state are fetched for
// all before the first is charged.
#pragma once

#include <rte_prefetch.h>

#include <array>

#include "pipeline/execute/execution.h"
#include "pipeline/program/meter.h"

namespace headrace::pipeline {

/// Charges a packet to a meter; null: it was deleted. DropReason::none: it passed.
[[nodiscard]] DropReason charge_meter(Execution& x, PacketView view,
                                      const MeterProgram* meter) noexcept;

/// A DSCP of an assured forwarding class with its drop precedence raised (RFC 2597); any other
/// stays as it is.
[[nodiscard]] uint8_t remark_dscp(uint8_t dscp, uint8_t prec_level) noexcept;

/// Charges each packet to the meter that meter_of(position) returns, and drops those that do not
/// conform.
template <typename MeterOf>
void charge_meters(Execution& x, OpBurst& burst, MeterOf&& meter_of) noexcept {
  std::array<const MeterProgram*, kBurst> meters;  // by position
  for (size_t k = 0; k < burst.count; ++k) {
    const MeterProgram* meter = meter_of(burst.at[k])->meter.load(std::memory_order_acquire);
    meters[burst.at[k]] = meter;
    rte_prefetch0(meter);
  }
  for (size_t k = 0; k < burst.count; ++k) {
    const MeterProgram* meter = meters[burst.at[k]];
    if (meter != nullptr) rte_prefetch0(&x.burst.counts[meter->counter]);
  }
  edit_each(x, burst,
            [&](size_t k) { return charge_meter(x, burst.view(k), meters[burst.at[k]]); });
}

}  // namespace headrace::pipeline
