// SPDX-License-Identifier: Apache-2.0
// IPv6 addresses and prefixes, as operators write them (RFC 4291) and as neighbor discovery derives
// them.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "vnf/net/address.h"

namespace headrace::vnf {

/// Octets as on the wire.
using Ipv6Address = std::array<uint8_t, 16>;

struct Ipv6Prefix {
  Ipv6Address address{};  ///< bits after `length` are zero
  uint8_t length{0};

  [[nodiscard]] bool contains(const Ipv6Address& other) const {
    const size_t whole = length / 8;
    if (std::memcmp(address.data(), other.data(), whole) != 0) return false;
    const unsigned rest = length % 8U;
    return rest == 0 || (address[whole] ^ other[whole]) >> (8 - rest) == 0;
  }
};

std::optional<Ipv6Address> parse_ipv6(std::string_view text);
std::string ipv6_text(const Ipv6Address& address);
/// `address/length`, or an address alone for 128. Nothing if a bit after the length is set.
std::optional<Ipv6Prefix> parse_ipv6_prefix(std::string_view text);
/// The prefix that contains an address.
Ipv6Prefix prefix_of(const Ipv6Address& address, uint8_t length);

inline bool is_multicast(const Ipv6Address& address) {
  return address[0] == 0xff;
}
inline bool is_link_local(const Ipv6Address& address) {
  return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}
inline bool is_unspecified(const Ipv6Address& address) {
  return address == Ipv6Address{};
}
/// fe80::/64 with the modified EUI-64 of a MAC address: RFC 4291, 2.5.6 and appendix A.
Ipv6Address link_local_of(const MacAddress& mac);
/// The solicited-node multicast group of an address: RFC 4291, 2.7.1.
Ipv6Address solicited_node_of(const Ipv6Address& address);
/// The Ethernet address of a multicast group: RFC 2464, 7.
MacAddress multicast_mac_of(const Ipv6Address& group);

inline Ipv6Address to_address(const uint8_t* octets) {
  Ipv6Address address;
  std::memcpy(address.data(), octets, address.size());
  return address;
}

}  // namespace headrace::vnf
