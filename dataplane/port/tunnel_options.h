// SPDX-License-Identifier: Apache-2.0
// The options of a tunnel port, in Open vSwitch's words (ovs-vswitchd.conf.db(5), "Tunnel
// Options"): remote_ip, local_ip and key (or in_key, out_key), each perhaps `flow`; dst_port, tos,
// ttl, csum, df_default, packet_type. And Headrace's own: underlay, remote_mac, gateway.
#pragma once

#include <compare>
#include <optional>

#include "packet/tunnel.h"
#include "port/port.h"

namespace headrace::port {

/// An address of either IP version, as packet::TunnelSpec holds it.
struct IpAddress {
  packet::TunnelAddress octets{};
  bool ipv6{false};
  auto operator<=>(const IpAddress&) const = default;
  [[nodiscard]] bool is_multicast() const {
    return ipv6 ? octets[0] == 0xff : (octets[0] & 0xf0) == 0xe0;
  }
};

struct TunnelOptions {
  packet::TunnelSpec spec;  ///< kind, dst_port, tos, ttl, flags; no IP version or addresses yet
  std::optional<IpAddress> remote;  ///< absent: flow
  std::optional<IpAddress> local;  ///< absent: any on the way in, the underlay's own on the way out
  bool local_from_flow{false};
  std::optional<uint32_t> in_key;        ///< absent: any (flow)
  std::optional<uint32_t> out_key;       ///< absent: flow
  bool has_in_key{false};                ///< GRE: packets have the key field
  std::string underlay;                  ///< a bridge; "": the one with the address
  std::optional<MacAddress> remote_mac;  ///< the next hop's; absent: resolved by ARP or ND
  /// The next hop towards far ends of its IP version; absent: the remote address itself.
  std::optional<IpAddress> gateway;

  /// True if outer headers may be of this IP version: that of the addresses that are given.
  [[nodiscard]] bool may_be(bool ipv6) const {
    const std::optional<IpAddress>& given = remote ? remote : local;
    return !given || given->ipv6 == ipv6;
  }
};

/// True for `vxlan`, `gre` and `gtpu`.
[[nodiscard]] bool is_tunnel_type(std::string_view type);

/// Reads the options of `config`; errors say which and what it may be.
Result<TunnelOptions> read_tunnel_options(const PortConfig& config);

/// The address in words, and from words.
[[nodiscard]] std::string format(const IpAddress& address);
[[nodiscard]] std::optional<IpAddress> parse_ip(const std::string& text);

}  // namespace headrace::port
