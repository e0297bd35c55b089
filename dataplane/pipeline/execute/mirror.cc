// SPDX-License-Identifier: Apache-2.0
// ActionRunner's mirrors: copies of what comes in or leaves, as Open vSwitch makes them.
#include "pipeline/program/mirror.h"

#include <algorithm>

#include "packet/edit.h"
#include "pipeline/execute/action_runner.h"
#include "pipeline/execute/reserved_group.h"
#include "pipeline/execute/vlan_tags.h"

namespace headrace::pipeline {

void ActionRunner::mirror(const BurstContext& burst, rte_mbuf* packet, const Port& at,
                          std::span<const std::shared_ptr<const Mirror>> mirrors) noexcept {
  if (packet->data_len < sizeof(packet::EthernetHeader)) return;
  const Tag tag = read_tag(packet);
  uint16_t vlan = tag.vid;
  if (const PortVlans* vlans = vlans_of(&at)) {
    const std::optional<uint16_t> taken = vlans->vlan_of(vlan);
    if (!taken) return;  // a packet that is in no VLAN of the port is nobody's
    vlan = *taken;
  }
  for (const std::shared_ptr<const Mirror>& each : mirrors) {
    const Mirror& mirror = *each;
    if ((mirror_mark(packet) & mirror.bit) != 0 || (mirror.vlans && !(*mirror.vlans)[vlan])) {
      continue;
    }
    mirror_mark(packet) |= mirror.same;
    if (mirror.output != nullptr) {
      if (const Port* port = mirror.output->port.load(std::memory_order_acquire)) {
        send_mirrored(burst, packet, mirror, *port, vlan);
      }
      continue;
    }
    if (vlan == mirror.output_vlan || is_reserved_group(rte_pktmbuf_mtod(packet, const uint8_t*)))
      continue;
    for (const PortHandle* handle : mirror.carriers) {
      const Port* port = handle->port.load(std::memory_order_acquire);
      if (port == nullptr || port == burst.in_port) continue;
      send_mirrored(burst, packet, mirror, *port, mirror.output_vlan);
    }
  }
}

void ActionRunner::mirror_sent(const BurstContext& burst, rte_mbuf* packet,
                               const Port& port) noexcept {
  const PortMirrors* mirrors = port.mirrors.load(std::memory_order_acquire);
  if (mirrors != nullptr) mirror(burst, packet, port, mirrors->sent);
}

void ActionRunner::send_mirrored(const BurstContext& burst, rte_mbuf* packet, const Mirror& mirror,
                                 const Port& port, uint16_t vlan) noexcept {
  const auto undelivered = [&] {
    add(burst.worker->drops[static_cast<size_t>(DropReason::mirror_undelivered)], 1);
  };
  // A mirror's own port refuses everybody else.
  const DropReason refusal = port.send_refusal.load(std::memory_order_relaxed);
  if (refusal != DropReason::none && refusal != DropReason::mirror_port) {
    undelivered();
    return;
  }
  const Tag now = read_tag(packet);
  const std::optional<uint16_t> then = tag_at(port, vlan, now.priority);
  // What the copy's tag adds or takes counts, too.
  const uint32_t added = then && !now.present ? 4 : 0;
  const uint32_t taken = !then && now.present ? 4 : 0;
  const uint32_t wanted =
      mirror.max_length == UINT32_MAX
          ? UINT32_MAX
          : std::max<uint32_t>(mirror.max_length + taken - added, sizeof(packet::EthernetHeader));
  rte_mbuf* made = rte_pktmbuf_copy(packet, packet->pool, 0, wanted);
  if (made == nullptr) {
    add(burst.worker->drops[static_cast<size_t>(DropReason::no_buffer)], 1);
    return;
  }
  packet::ParsedPacket parsed = packet::parse(packet::frame_of(made), burst.parse_depth);
  match::FlowKey no_fields{};
  if (then != now.vid_if_present() &&
      retag(made, parsed, burst.parse_depth, now, then) != DropReason::none) {
    undelivered();
    tx_.free(made);
    return;
  }
  // Only where less than a header and its tag was asked for, so it is in one piece.
  if (made->pkt_len > mirror.max_length) {
    (void)rte_pktmbuf_trim(made, static_cast<uint16_t>(made->pkt_len - mirror.max_length));
  }
  MirrorCount& count = (*mirror.counts)[worker_];
  add(count.packets, 1);
  add(count.bytes, made->pkt_len);
  send(burst, {made, &no_fields, &parsed}, port);
}

}  // namespace headrace::pipeline
