// SPDX-License-Identifier: Apache-2.0
// Every way in which a packet can end without leaving the switch has a name and a counter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace headrace::pipeline {

enum class DropReason : uint8_t {
  none,                ///< not dropped; also the index of an unused counter
  table_miss,          ///< no rule matched and the table has no table-miss entry
  no_output,           ///< the action list and set ended without an output or group
  malformed,           ///< too short for its own headers
  ttl_expired,         ///< dec_ttl found a TTL of 0 or 1
  meter,               ///< a meter's drop band
  meter_missing,       ///< the rule's meter was deleted
  group_missing,       ///< the group was deleted under a bucket that refers to it
  no_live_bucket,      ///< a select or fast-failover group with no bucket that is alive
  group_loop,          ///< groups nested deeper than the executor follows
  port_missing,        ///< output to a port that does not exist
  port_down,           ///< output to a port that is administratively down or has no link
  port_no_forward,     ///< output to a port with OFPPC_NO_FWD
  port_no_receive,     ///< received on a port with OFPPC_NO_RECV or administratively down
  input_port,          ///< output to the packet's own input port without IN_PORT
  mtu_exceeded,        ///< longer than the MTU of the port that it was to leave by
  tx_queue_full,       ///< the port took fewer packets than offered
  no_buffer,           ///< no mbuf for a copy
  no_headroom,         ///< no room in the mbuf for a pushed header
  bad_action,          ///< an action that does not fit this packet (pop without a header)
  punt_queue_full,     ///< the way to the controller was full
  punt_disabled,       ///< packet-in suppressed by OFPPC_NO_PACKET_IN
  patch_depth,         ///< crossed more patch ports than the executor follows: a loop
  patch_unconnected,   ///< a patch port without a peer
  fragment,            ///< could not be reassembled: overlaps, too many, or late
  tunnel_malformed,    ///< a tunnel header cut off, or with flags that its protocol forbids
  tunnel_fragment,     ///< a fragment of a tunnel's outer packet, which was not reassembled
  tunnel_checksum,     ///< a wrong checksum of IPv4, UDP or GRE around a tunnelled packet
  tunnel_message,      ///< GTP-U signalling, which carries no packet
  tunnel_not_ip,       ///< no IP packet to send by a tunnel of layer 3
  tunnel_too_long,     ///< longer than the underlay's MTU once encapsulated
  tunnel_unknown,      ///< addressed to our tunnels, but no port has this remote address and key
  tunnel_unresolved,   ///< the next hop's MAC address is not known (yet)
  tunnel_no_remote,    ///< remote_ip=flow, and no rule has set tun_dst or tun_ipv6_dst
  vlan_refused,        ///< NORMAL: the port it came in by does not carry the packet's VLAN
  port_protected,      ///< NORMAL: from one protected port to another
  reserved_address,    ///< NORMAL: to a group address that bridges don't forward
  mirror_port,         ///< received by, or sent to, a port that is a mirror's alone
  mirror_undelivered,  ///< a mirror's copy, for its port was down or its tag had no room
  count
};

inline constexpr size_t kDropReasons = static_cast<size_t>(DropReason::count);

/// Name for counters, logs and `headrace switch drops`.
constexpr std::string_view name(DropReason reason) {
  constexpr std::array<std::string_view, kDropReasons> kNames = {"none",
                                                                 "table-miss",
                                                                 "no-output",
                                                                 "malformed",
                                                                 "ttl-expired",
                                                                 "meter",
                                                                 "meter-missing",
                                                                 "group-missing",
                                                                 "no-live-bucket",
                                                                 "group-loop",
                                                                 "port-missing",
                                                                 "port-down",
                                                                 "port-no-forward",
                                                                 "port-no-receive",
                                                                 "input-port",
                                                                 "mtu-exceeded",
                                                                 "tx-queue-full",
                                                                 "no-buffer",
                                                                 "no-headroom",
                                                                 "bad-action",
                                                                 "punt-queue-full",
                                                                 "punt-disabled",
                                                                 "patch-depth",
                                                                 "patch-unconnected",
                                                                 "fragment",
                                                                 "tunnel-malformed",
                                                                 "tunnel-fragment",
                                                                 "tunnel-checksum",
                                                                 "tunnel-message",
                                                                 "tunnel-not-ip",
                                                                 "tunnel-too-long",
                                                                 "tunnel-unknown",
                                                                 "tunnel-unresolved",
                                                                 "tunnel-no-remote",
                                                                 "vlan-refused",
                                                                 "port-protected",
                                                                 "reserved-address",
                                                                 "mirror-port",
                                                                 "mirror-undelivered"};
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace headrace::pipeline
