// SPDX-License-Identifier: Apache-2.0
// Addresses as operators write them.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "packet/mac_address.h"

namespace headrace::vnf {

using packet::MacAddress;

/// An IPv4 address in host order.
using Ipv4Address = uint32_t;

struct Ipv4Prefix {
  Ipv4Address address{0};  ///< host order; bits after `length` are zero
  uint8_t length{0};
  auto operator<=>(const Ipv4Prefix&) const = default;

  [[nodiscard]] constexpr uint32_t mask() const {
    return length == 0 ? 0 : ~uint32_t{0} << (32 - length);
  }
  [[nodiscard]] constexpr bool contains(Ipv4Address other) const {
    return (other & mask()) == address;
  }
};

/// Dotted decimal, four parts.
std::optional<Ipv4Address> parse_ipv4(std::string_view text);
std::string ipv4_text(Ipv4Address address);

/// `a.b.c.d/length`, or an address alone for a length of 32. Nothing if a bit after the length is
/// set: such a prefix is nearly always an error.
std::optional<Ipv4Prefix> parse_ipv4_prefix(std::string_view text);

}  // namespace headrace::vnf
