// SPDX-License-Identifier: Apache-2.0
// The key of a bidirectional flow, IPv4 or IPv6, the same for both directions: the lower end first.
//
// IPv4 addresses are in the last four of the sixteen octets, the rest is zero; the version
// distinguishes the two families.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "packet/parse.h"

namespace headrace::vnf {

struct FlowKey {
  uint8_t low_address[16];
  uint8_t high_address[16];
  uint16_t low_port;   ///< as on the wire
  uint16_t high_port;  ///< as on the wire
  uint8_t proto;
  uint8_t version;
  uint16_t zero;  ///< explicit padding: the key is compared and hashed as octets
};
static_assert(sizeof(FlowKey) == 40);

namespace flow_key_detail {

struct End {
  uint8_t address[16];
  uint16_t port;
};

inline bool is_before(const End& a, const End& b) {
  const int order = std::memcmp(a.address, b.address, sizeof a.address);
  return order != 0 ? order < 0 : a.port < b.port;
}

}  // namespace flow_key_detail

/// The key of an IP packet with a complete transport header (ports are 0 for protocols without
/// ports); nothing for other frames and for fragments. `parsed` must be at Depth::l4.
inline std::optional<FlowKey> flow_key_of(std::span<const uint8_t> frame,
                                          const packet::ParsedPacket& parsed) {
  constexpr uint16_t kUnfit = packet::kMalformed | packet::kFragment;
  if (!parsed.has(packet::kIpv4 | packet::kIpv6) || parsed.has(kUnfit)) return std::nullopt;
  flow_key_detail::End src{};
  flow_key_detail::End dst{};
  const bool v4 = parsed.has(packet::kIpv4);
  if (v4) {
    const auto& ip = *reinterpret_cast<const packet::Ipv4Header*>(&frame[parsed.l3]);
    std::memcpy(src.address + 12, &ip.src, 4);
    std::memcpy(dst.address + 12, &ip.dst, 4);
  } else {
    const auto& ip = *reinterpret_cast<const packet::Ipv6Header*>(&frame[parsed.l3]);
    std::memcpy(src.address, ip.src, 16);
    std::memcpy(dst.address, ip.dst, 16);
  }
  const bool has_ports = parsed.ip_proto == packet::kProtoTcp ||
                         parsed.ip_proto == packet::kProtoUdp ||
                         parsed.ip_proto == packet::kProtoSctp;
  if (has_ports && parsed.l4 != 0) {
    src.port = packet::load_raw16(&frame[parsed.l4]);
    dst.port = packet::load_raw16(&frame[parsed.l4 + 2U]);
  }
  if (flow_key_detail::is_before(dst, src)) std::swap(src, dst);
  FlowKey key;
  std::memcpy(key.low_address, src.address, sizeof src.address);
  std::memcpy(key.high_address, dst.address, sizeof dst.address);
  key.low_port = src.port;
  key.high_port = dst.port;
  key.proto = parsed.ip_proto;
  key.version = v4 ? 4 : 6;
  key.zero = 0;
  return key;
}

}  // namespace headrace::vnf
