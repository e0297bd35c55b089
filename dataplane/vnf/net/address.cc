// SPDX-License-Identifier: Apache-2.0
#include "vnf/net/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

namespace headrace::vnf {
namespace {

/// A number that fills the whole text and is at most `most`.
std::optional<unsigned> parse_number(std::string_view text, int base, unsigned most) {
  unsigned value = 0;
  const auto [end, code] = std::from_chars(text.begin(), text.end(), value, base);
  if (code != std::errc{} || end != text.end() || value > most) return std::nullopt;
  return value;
}

}  // namespace

std::optional<Ipv4Address> parse_ipv4(std::string_view text) {
  in_addr address{};
  if (inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

std::string ipv4_text(Ipv4Address address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255,
                     address & 255);
}

std::optional<Ipv4Prefix> parse_ipv4_prefix(std::string_view text) {
  const auto slash = text.find('/');
  Ipv4Prefix prefix{.address = 0, .length = 32};
  if (slash != std::string_view::npos) {
    const auto length = parse_number(text.substr(slash + 1), 10, 32);
    if (!length) return std::nullopt;
    prefix.length = static_cast<uint8_t>(*length);
  }
  const auto address = parse_ipv4(text.substr(0, slash));
  if (!address || (*address & ~prefix.mask()) != 0) return std::nullopt;
  prefix.address = *address;
  return prefix;
}

}  // namespace headrace::vnf
