// SPDX-License-Identifier: Apache-2.0
#include "packet/mac_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>

namespace headrace::packet {

std::optional<MacAddress> parse_mac(std::string_view text) {
  MacAddress mac{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (size_t i = 0; i < mac.size(); ++i) {
    if (i > 0 && (at == end || *at++ != ':')) return std::nullopt;
    const auto [next, error] = std::from_chars(at, std::min(at + 2, end), mac[i], 16);
    if (error != std::errc{}) return std::nullopt;
    at = next;
  }
  if (at != end) return std::nullopt;
  return mac;
}

std::string format_mac(const MacAddress& mac) {
  return fmt::format("{:02x}", fmt::join(mac, ":"));
}

MacAddress mac_from_name(std::string_view name) {
  const uint64_t hash = std::hash<std::string_view>{}(name);
  MacAddress mac{0x02, 0xfe};
  for (size_t i = 2; i < mac.size(); ++i) mac[i] = static_cast<uint8_t>(hash >> 8 * i);
  return mac;
}

}  // namespace headrace::packet
