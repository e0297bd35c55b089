// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/tunnel_actions.h"

namespace headrace::pipeline {

using packet::TunnelResult;

DropReason drop_reason(TunnelResult result) noexcept {
  switch (result) {
    case TunnelResult::done:
      return DropReason::none;
    case TunnelResult::absent:
      return DropReason::bad_action;
    case TunnelResult::malformed:
      return DropReason::tunnel_malformed;
    case TunnelResult::fragment:
      return DropReason::tunnel_fragment;
    case TunnelResult::checksum:
      return DropReason::tunnel_checksum;
    case TunnelResult::message:
      return DropReason::tunnel_message;
    case TunnelResult::not_ip:
      return DropReason::tunnel_not_ip;
    case TunnelResult::no_headroom:
      return DropReason::no_headroom;
    case TunnelResult::too_long:
      return DropReason::tunnel_too_long;
  }
  return DropReason::bad_action;
}

DropReason push_tunnel(const PacketView& view, const Op& op) noexcept {
  const packet::TunnelHeader& header = *op.tunnel;
  const uint64_t id = op.argument != 0 ? packet::swap64(view.values->tunnel_id) : header.spec().id;
  return drop_reason(header.push(view.packet, *view.parsed, id,
                                 entropy_of(flow_hash64(view.packet, *view.parsed))));
}

DropReason pop_tunnel(const PacketView& view, packet::TunnelKind kind,
                      packet::Depth depth) noexcept {
  const packet::TunnelFound found = packet::find_tunnel(view.packet, *view.parsed, kind);
  if (found.result != TunnelResult::done) return drop_reason(found.result);
  OuterAddresses addresses;
  if (depth == packet::Depth::full) {
    addresses =
        OuterAddresses::of(rte_pktmbuf_mtod_offset(view.packet, const uint8_t*, view.parsed->l3),
                           view.parsed->has(packet::kIpv4));
  }
  if (!packet::pop_tunnel(view.packet, found)) return DropReason::tunnel_malformed;
  view.values->tunnel_id = packet::swap64(found.id);
  if (depth == packet::Depth::full) addresses.store(*view.values);
  return DropReason::none;
}

}  // namespace headrace::pipeline
