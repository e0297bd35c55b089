// SPDX-License-Identifier: Apache-2.0
// Headrace's experimenter actions on the wire: push and pop of tunnels, and a group's memory.
//
// Both are ofp_action_experimenter (OpenFlow 1.3.5, 7.2.5) with the experimenter 0x00524143 ("RAC",
// from the range of locally administered OUIs, which IEEE assigns to nobody). What follows it:
//
//   push (64 octets)                                 pop (8 octets)
//    0  subtype 1                          u16        0  subtype 2            u16
//    2  kind: 1 VXLAN, 2 GRE, 3 GTP-U      u8         2  kind                 u8
//    3  flags, PushFlag                    u8         3  0                    5 octets
//    4  TOS, 5 TTL of the outer header     u8, u8
//    6  UDP destination port, 0: the protocol's own   u16
//    8  tunnel id                          u64
//   16  outer Ethernet source, destination 2 * 6 octets
//   28  0                                  u32
//   32  outer IP source, destination       2 * 16 octets, IPv4 in the first four, the rest 0
//
// A third, of 8 octets, stands in any bucket of a select group and makes the group remember its
// flows: subtype 3 (u16), idle timeout in seconds (u16), 0 (u32).
//
// ovs-ofctl knows no foreign experimenter actions, neither to write nor to print, but it does know
// `note:`, Nicira's action (0x00002320, subtype 8) that carries octets and does nothing. A note
// that begins with the octets 00.52.41.43 is therefore taken for the action whose octets follow,
// and is reported as the note that it came as. `headrace switch push` and `pop` print such notes.
#pragma once

#include <optional>

#include "openflow/codec/errors.h"
#include "openflow/codec/wire.h"
#include "pipeline/terms/flow_types.h"

namespace headrace::openflow {

inline constexpr uint32_t kHeadraceExperimenter = 0x00524143;

/// Bits of the octet at offset 3 of a push.
enum PushFlag : uint8_t {
  kPushIpv6 = 1 << 0,
  kPushKey = 1 << 1,  ///< GRE: with the key field
  kPushChecksum = 1 << 2,
  kPushDontFragment = 1 << 3,
  kPushLayer3 = 1 << 4,  ///< GRE: carry IP; GTP-U always does
  kPushIdFromField = 1 << 5,
  kPushInheritTos = 1 << 6,
  kPushInheritTtl = 1 << 7,
};

/// Decodes what follows an experimenter id, or nothing if the action is none of ours. `body` is
/// consumed if it is ours.
std::optional<OfResult<pipeline::Action>> decode_tunnel_action(Reader& body);

/// Appends the whole action.
void encode_tunnel_action(Writer& writer, const pipeline::PushTunnelAction& action);
void encode_tunnel_action(Writer& writer, const pipeline::PopTunnelAction& action);
void encode_tunnel_action(Writer& writer, const pipeline::SelectMemoryAction& action);

}  // namespace headrace::openflow
