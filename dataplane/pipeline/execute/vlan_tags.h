// SPDX-License-Identifier: Apache-2.0
// A frame's outermost VLAN tag, and the one that it has at a port; for NORMAL and mirrors.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <optional>

#include "packet/bytes.h"
#include "packet/edit.h"
#include "pipeline/program/handles.h"
#include "pipeline/terms/drop_reason.h"

namespace headrace::pipeline {

/// The outermost tag of a frame, read from the frame itself: rules may have set it.
struct Tag {
  bool present{false};
  uint16_t vid{0};
  uint8_t priority{0};

  [[nodiscard]] std::optional<uint16_t> vid_if_present() const {
    return present ? std::optional(vid) : std::nullopt;
  }
};

inline Tag read_tag(const rte_mbuf* packet) {
  constexpr size_t kTypeAt = 12;
  constexpr size_t kTciAt = 14;
  const auto* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
  if (packet->data_len < kTciAt + 4 || !packet::is_vlan_type(packet::load_raw16(frame + kTypeAt))) {
    return {};
  }
  const uint16_t tci = packet::load_be16(frame + kTciAt);
  return {true, static_cast<uint16_t>(tci & 0xfff), static_cast<uint8_t>(tci >> 13)};
}

inline const PortVlans* vlans_of(const Port* port) {
  return port == nullptr ? nullptr : port->vlans.load(std::memory_order_acquire);
}

/// The VID of the tag that a packet of this VLAN leaves by the port with; nothing: it has none.
inline std::optional<uint16_t> tag_at(const Port& port, uint16_t vlan, uint8_t priority) {
  if (const PortVlans* vlans = vlans_of(&port)) return vlans->tag_of(vlan, priority);
  return vlan != 0 ? std::optional(vlan) : std::nullopt;
}

/// Gives the packet the tag with which it leaves; the reason if there is no room for it.
inline DropReason retag(rte_mbuf* packet, packet::ParsedPacket& parsed, packet::Depth depth,
                        const Tag& now, std::optional<uint16_t> then) {
  constexpr uint16_t kTpid = 0x8100;
  if (!then) {
    return packet::pop_vlan(packet, parsed, depth) ? DropReason::none : DropReason::bad_action;
  }
  if (!now.present && !packet::push_vlan(packet, parsed, kTpid, depth)) {
    return DropReason::no_headroom;
  }
  const uint16_t vid = packet::swap16(*then);
  return packet::set_vlan_vid(packet, parsed, reinterpret_cast<const uint8_t*>(&vid))
             ? DropReason::none
             : DropReason::bad_action;
}

}  // namespace headrace::pipeline
