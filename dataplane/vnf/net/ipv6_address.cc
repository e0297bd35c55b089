// SPDX-License-Identifier: Apache-2.0
#include "vnf/net/ipv6_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace headrace::vnf {

std::optional<Ipv6Address> parse_ipv6(std::string_view text) {
  Ipv6Address address;
  if (inet_pton(AF_INET6, std::string(text).c_str(), address.data()) != 1) return std::nullopt;
  return address;
}

std::string ipv6_text(const Ipv6Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return inet_ntop(AF_INET6, address.data(), text.data(), text.size());
}

Ipv6Prefix prefix_of(const Ipv6Address& address, uint8_t length) {
  Ipv6Prefix prefix{.address = address, .length = length};
  for (size_t bit = length; bit < 128; ++bit) {
    prefix.address[bit / 8] &= static_cast<uint8_t>(~(0x80U >> bit % 8));
  }
  return prefix;
}

std::optional<Ipv6Prefix> parse_ipv6_prefix(std::string_view text) {
  const auto slash = text.find('/');
  unsigned length = 128;
  if (slash != std::string_view::npos) {
    const auto digits = text.substr(slash + 1);
    const auto [end, code] =
        std::from_chars(digits.data(), digits.data() + digits.size(), length, 10);
    if (code != std::errc{} || end != digits.data() + digits.size() || length > 128) {
      return std::nullopt;
    }
  }
  const auto address = parse_ipv6(text.substr(0, slash));
  if (!address) return std::nullopt;
  const auto prefix = prefix_of(*address, static_cast<uint8_t>(length));
  if (prefix.address != *address) return std::nullopt;
  return prefix;
}

Ipv6Address link_local_of(const MacAddress& mac) {
  Ipv6Address address{0xfe, 0x80};
  std::copy(mac.begin(), mac.begin() + 3, address.begin() + 8);
  address[8] ^= 2;
  address[11] = 0xff;
  address[12] = 0xfe;
  std::copy(mac.begin() + 3, mac.end(), address.begin() + 13);
  return address;
}

Ipv6Address solicited_node_of(const Ipv6Address& address) {
  Ipv6Address group{0xff, 0x02};
  group[11] = 1;
  group[12] = 0xff;
  std::copy(address.begin() + 13, address.end(), group.begin() + 13);
  return group;
}

MacAddress multicast_mac_of(const Ipv6Address& group) {
  return {0x33, 0x33, group[12], group[13], group[14], group[15]};
}

}  // namespace headrace::vnf
