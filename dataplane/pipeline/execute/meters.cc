// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/meters.h"

#include <algorithm>
#include <span>

#include "packet/edit.h"

namespace headrace::pipeline {

void charge_run(Execution& x, const OpBurst& burst, size_t begin, size_t end,
                const MeterProgram& meter,
                std::array<const BandProgram*, kBurst>& exceeded) noexcept {
  std::array<uint32_t, kBurst> lengths;
  uint64_t bytes = 0;
  for (size_t k = begin; k < end; ++k) {
    lengths[k] = burst.block->packets[burst.at[k]]->pkt_len;
    bytes += lengths[k];
  }
  add(x.burst.counts[meter.counter], end - begin, bytes);
  meter.charge(x.tsc, std::span(lengths).subspan(begin, end - begin),
               std::span(exceeded).subspan(begin, end - begin), x.alone);
}

DropReason apply_band(Execution& x, PacketView view, const BandProgram& band) noexcept {
  add(x.burst.counts[band.counter], 1, view.packet->pkt_len);
  if (band.type == MeterBand::Type::drop) return DropReason::meter;
  if (view.parsed->has(packet::kIpv4 | packet::kIpv6)) {
    const uint8_t dscp = remark_dscp(view.key->ip_dscp, band.prec_level);
    if (dscp != view.key->ip_dscp && packet::set_ip_dscp(view.packet, *view.parsed, &dscp)) {
      view.key->ip_dscp = dscp;
      x.burst.metadata.differ |= 1u << offsetof(match::FlowKey, ip_dscp) / 8;
    }
  }
  return DropReason::none;
}

uint8_t remark_dscp(uint8_t dscp, uint8_t prec_level) noexcept {
  const unsigned af_class = dscp >> 3;
  const unsigned precedence = (dscp & 7u) >> 1;
  if (af_class < 1 || af_class > 4 || precedence == 0 || (dscp & 1u) != 0) return dscp;
  const unsigned raised = std::min(3u, precedence + prec_level);
  return static_cast<uint8_t>(af_class << 3 | raised << 1);
}

}  // namespace headrace::pipeline
