// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/meters.h"

#include <algorithm>

#include "packet/edit.h"

namespace headrace::pipeline {

DropReason charge_meter(Execution& x, PacketView view, const MeterProgram* meter) noexcept {
  if (meter == nullptr) return DropReason::meter_missing;
  const uint32_t bytes = view.packet->pkt_len;
  add(x.burst.counts[meter->counter], 1, bytes);
  const BandProgram* band = meter->charge(x.tsc, bytes);
  if (band == nullptr) return DropReason::none;
  add(x.burst.counts[band->counter], 1, bytes);
  if (band->type == MeterBand::Type::drop) return DropReason::meter;
  if (view.parsed->has(packet::kIpv4 | packet::kIpv6)) {
    const uint8_t dscp = remark_dscp(view.key->ip_dscp, band->prec_level);
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
