// SPDX-License-Identifier: Apache-2.0
// MAC addresses as values: text form, and an address for a port that has none.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headrace::packet {

using MacAddress = std::array<uint8_t, 6>;

/// "02:00:00:00:00:01": six groups of one or two hexadecimal digits, as OVS and ether_aton() take
/// them. Nothing for any other text.
[[nodiscard]] std::optional<MacAddress> parse_mac(std::string_view text);

/// Two lower-case digits per octet, separated by colons.
[[nodiscard]] std::string format_mac(const MacAddress& mac);

/// A locally administered unicast address (02:fe:...) made from a hash of `name`: the same at every
/// start, so that peers' ARP caches and learned tables stay valid.
[[nodiscard]] MacAddress mac_from_name(std::string_view name);

}  // namespace headrace::packet
