// SPDX-License-Identifier: Apache-2.0
// ActionRunner's NORMAL: what a learning switch with VLANs does, as Open vSwitch does it.
#include "pipeline/execute/action_runner.h"
#include "pipeline/execute/reserved_group.h"
#include "pipeline/execute/vlan_tags.h"
#include "pipeline/program/mac_table.h"

namespace headrace::pipeline {
namespace {

/// Why a packet of `vlan` may not go from one port to the other, or DropReason::none.
DropReason refusal_of(const Port* from, const Port& to, uint16_t vlan) {
  if (&to == from) return DropReason::input_port;
  if (const PortVlans* out = vlans_of(&to)) {
    if (!out->carries(vlan)) return DropReason::vlan_refused;
    const PortVlans* in = vlans_of(from);
    if (out->is_protected && in != nullptr && in->is_protected) return DropReason::port_protected;
  }
  return to.send_refusal.load(std::memory_order_relaxed);
}

}  // namespace

void ActionRunner::send_in_vlan(const BurstContext& burst, PacketView view, const Port& port,
                                uint16_t vlan, bool consume) noexcept {
  rte_mbuf* packet = consume ? view.packet : copy(burst, view.packet);
  if (packet == nullptr) return;
  const Tag now = read_tag(packet);
  const std::optional<uint16_t> then = tag_at(port, vlan, now.priority);
  if (then == now.vid_if_present()) {
    send(burst, {packet, view.values, view.parsed}, port);
    return;
  }
  packet::ParsedPacket parsed = *view.parsed;
  const DropReason reason = retag(packet, parsed, burst.parse_depth, now, then);
  if (reason != DropReason::none) {
    drop(burst, packet, reason);
  } else {
    send(burst, {packet, view.values, &parsed}, port);
  }
}

void ActionRunner::normal(const BurstContext& burst, PacketView view, bool consume) noexcept {
  const auto refuse = [&](DropReason reason) {
    add(burst.worker->drops[static_cast<size_t>(reason)], 1);
    if (consume) tx_.free(view.packet);
  };
  if (view.packet->data_len < sizeof(packet::EthernetHeader)) {
    refuse(DropReason::malformed);
    return;
  }
  const auto* frame = rte_pktmbuf_mtod(view.packet, const uint8_t*);
  if (is_reserved_group(frame) && !burst.program->forwards_reserved) {
    refuse(DropReason::reserved_address);
    return;
  }
  const Port* in_port = burst.in_port;
  uint16_t vlan = read_tag(view.packet).vid;
  if (const PortVlans* vlans = vlans_of(in_port)) {
    const std::optional<uint16_t> taken = vlans->vlan_of(vlan);
    if (!taken) {
      refuse(DropReason::vlan_refused);
      return;
    }
    vlan = *taken;
  }
  MacTable& macs = *burst.program->macs;
  if (in_port != nullptr) macs.learn(frame + 6, vlan, burst.in_port_number, tick_);
  const std::optional<PortNo> number =
      (frame[0] & 1) != 0 ? std::nullopt : macs.find(frame, vlan, tick_);
  if (const Port* port = number ? burst.program->port(*number) : nullptr) {
    const DropReason refusal = refusal_of(in_port, *port, vlan);
    if (refusal != DropReason::none) {
      refuse(refusal);
    } else {
      send_in_vlan(burst, view, *port, vlan, consume);
    }
    return;
  }
  for (const Port* port : burst.program->ports) {
    if (refusal_of(in_port, *port, vlan) == DropReason::none) {
      send_in_vlan(burst, view, *port, vlan, false);
    }
  }
  if (consume) tx_.free(view.packet);
}

}  // namespace headrace::pipeline
