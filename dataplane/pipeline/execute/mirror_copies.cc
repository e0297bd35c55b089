// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/mirror_copies.h"

#include <algorithm>

#include "packet/copy_pool.h"
#include "packet/edit.h"
#include "pipeline/execute/reserved_group.h"
#include "pipeline/execute/transmit.h"
#include "pipeline/execute/vlan_tags.h"
#include "pipeline/program/mirror.h"

namespace headrace::pipeline {

namespace {

/// Sends a mirror's copy, with the tag that its VLAN has at the port.
void send_mirrored(Execution& x, rte_mbuf* packet, const Mirror& mirror, const Port& port,
                   uint16_t vlan) noexcept {
  const auto undelivered = [&] { x.count_drop(DropReason::mirror_undelivered); };
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
  rte_mbuf* made = packet::copy_of(packet, wanted);
  if (made == nullptr) {
    x.count_drop(DropReason::no_buffer);
    return;
  }
  packet::ParsedPacket parsed = packet::parse(packet::frame_of(made), x.burst.parse_depth);
  match::FlowKey no_fields{};
  if (then != now.vid_if_present() &&
      retag(made, parsed, x.burst.parse_depth, now, then) != DropReason::none) {
    undelivered();
    x.tx.free(made);
    return;
  }
  // Only where less than a header and its tag was asked for, so it is in one piece.
  if (made->pkt_len > mirror.max_length) {
    (void)rte_pktmbuf_trim(made, static_cast<uint16_t>(made->pkt_len - mirror.max_length));
  }
  MirrorCount& count = (*mirror.counts)[x.worker];
  add(count.packets, 1);
  add(count.bytes, made->pkt_len);
  send(x, {made, &no_fields, &parsed}, port);
}

}  // namespace

void mirror(Execution& x, rte_mbuf* packet, const Port& at,
            std::span<const std::shared_ptr<const Mirror>> mirrors) noexcept {
  if (packet->data_len < sizeof(packet::EthernetHeader)) return;
  const Tag tag = read_tag(packet);
  uint16_t vlan = tag.vid;
  if (const PortVlans* vlans = vlans_of(&at)) {
    const std::optional<uint16_t> taken = vlans->vlan_of(vlan);
    if (!taken) return;  // a packet that is in no VLAN of the port is not mirrored
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
        send_mirrored(x, packet, mirror, *port, vlan);
      }
      continue;
    }
    if (vlan == mirror.output_vlan || is_reserved_group(rte_pktmbuf_mtod(packet, const uint8_t*)))
      continue;
    for (const PortHandle* handle : mirror.carriers) {
      const Port* port = handle->port.load(std::memory_order_acquire);
      if (port == nullptr || port == x.burst.in_port) continue;
      send_mirrored(x, packet, mirror, *port, mirror.output_vlan);
    }
  }
}

void mirror_sent(Execution& x, rte_mbuf* packet, const Port& port) noexcept {
  const PortMirrors* mirrors = port.mirrors.load(std::memory_order_acquire);
  if (mirrors != nullptr) mirror(x, packet, port, mirrors->sent);
}

}  // namespace headrace::pipeline
