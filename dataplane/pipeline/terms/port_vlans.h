// SPDX-License-Identifier: Apache-2.0
// The VLANs of a port, as the NORMAL action sees them: Open vSwitch's columns vlan_mode, tag,
// trunks and protected of Port, and its other_config:priority-tags. Other actions don't look here.
//
// Inside, a packet is in one VLAN: 0 if it is in none. At a port it comes in with a VID (0: without
// a tag, or with a priority tag) and goes out with one.
//
// Source: ovs-vswitchd.conf.db(5), "Port TABLE", VLAN configuration.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>

namespace headrace::pipeline {

struct PortVlans {
  enum class Mode : uint8_t { trunk, access, native_tagged, native_untagged };
  /// Whether a packet in no VLAN leaves with a tag of VID 0 that holds its priority.
  enum class PriorityTags : uint8_t { never, if_nonzero, always };
  using VidSet = std::bitset<4096>;

  Mode mode{Mode::trunk};
  PriorityTags priority_tags{PriorityTags::never};
  bool is_protected{false};  ///< nothing passes from one protected port to another
  uint16_t tag{0};           ///< the VLAN of an access port; the native one
  VidSet trunks{VidSet{}.set()};

  bool operator==(const PortVlans&) const = default;

  /// The VLAN of a packet that comes in with this VID; nothing: the port does not take it.
  [[nodiscard]] std::optional<uint16_t> vlan_of(uint16_t vid) const {
    if (mode == Mode::access) return vid == 0 ? std::optional(tag) : std::nullopt;
    if (mode != Mode::trunk && vid == 0) return tag;
    return trunks[vid] ? std::optional(vid) : std::nullopt;
  }

  /// Whether packets of this VLAN leave by the port.
  [[nodiscard]] bool carries(uint16_t vlan) const {
    return mode == Mode::access ? vlan == tag
                                : trunks[vlan] || (mode != Mode::trunk && vlan == tag);
  }

  /// The VID of the tag that a packet of this VLAN leaves with; nothing: it has none.
  [[nodiscard]] std::optional<uint16_t> tag_of(uint16_t vlan, uint8_t priority) const {
    const bool bare = mode == Mode::access || (mode == Mode::native_untagged && vlan == tag);
    if (!bare && vlan != 0) return vlan;
    const bool keeps = priority_tags == PriorityTags::always ||
                       (priority_tags == PriorityTags::if_nonzero && priority != 0);
    return keeps ? std::optional<uint16_t>(0) : std::nullopt;
  }
};

}  // namespace headrace::pipeline
