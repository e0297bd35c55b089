// SPDX-License-Identifier: Apache-2.0
// Meters (section 5.7), on the packets of a burst: their counters and token state are fetched for
// all before the first is charged, and packets that follow one another to one meter are charged
// together.
#pragma once

#include <rte_prefetch.h>

#include <array>

#include "pipeline/execute/execution.h"
#include "pipeline/program/meter.h"

namespace headrace::pipeline {

/// Charges the packets [begin, end) of `burst` to a meter. Entries of `exceeded` from `begin` on
/// become the band that each exceeds; null: it conforms.
void charge_run(Execution& x, const OpBurst& burst, size_t begin, size_t end,
                const MeterProgram& meter,
                std::array<const BandProgram*, kBurst>& exceeded) noexcept;

/// Does to a packet what the band that it exceeds says. DropReason::none: it goes on.
[[nodiscard]] DropReason apply_band(Execution& x, PacketView view,
                                    const BandProgram& band) noexcept;

/// A DSCP of an assured forwarding class with its drop precedence raised (RFC 2597); any other
/// stays as it is.
[[nodiscard]] uint8_t remark_dscp(uint8_t dscp, uint8_t prec_level) noexcept;

/// Charges each packet to the meter that meter_of(position) returns, and drops those that do not
/// conform.
template <typename MeterOf>
void charge_meters(Execution& x, OpBurst& burst, MeterOf&& meter_of) noexcept {
  std::array<const MeterProgram*, kBurst> meters;  // by number in the burst; null: deleted
  std::array<const BandProgram*, kBurst> exceeded;
  for (size_t k = 0; k < burst.count; ++k) {
    meters[k] = meter_of(burst.at[k])->at(x.burst.program->version);
    rte_prefetch0(meters[k]);
  }
  for (size_t k = 0; k < burst.count; ++k) {
    if (meters[k] != nullptr) rte_prefetch0(&x.burst.counts[meters[k]->counter]);
  }
  for (size_t begin = 0; begin < burst.count;) {
    size_t end = begin + 1;
    while (end < burst.count && meters[end] == meters[begin]) ++end;
    if (meters[begin] == nullptr) {
      // Deleted: see below.
    } else if (end == begin + 1) {
      const uint32_t length = burst.block->packets[burst.at[begin]]->pkt_len;
      add(x.burst.counts[meters[begin]->counter], 1, length);
      exceeded[begin] = meters[begin]->charge(x.tsc, length, x.alone);
    } else {
      charge_run(x, burst, begin, end, *meters[begin], exceeded);
    }
    begin = end;
  }
  edit_each(x, burst, [&](size_t k) {
    if (meters[k] == nullptr) return DropReason::meter_missing;
    return exceeded[k] == nullptr ? DropReason::none : apply_band(x, burst.view(k), *exceeded[k]);
  });
}

}  // namespace headrace::pipeline
