// SPDX-License-Identifier: Apache-2.0
// What pushes and pops of tunnels have in common, whether actions or ports do them.
#pragma once

#include <array>
#include <cstring>

#include "match/fields/fields.h"
#include "packet/bytes.h"
#include "packet/headers.h"
#include "packet/tunnel.h"
#include "pipeline/terms/drop_reason.h"

namespace headrace::pipeline {

/// The name of what went wrong; none for `done`.
[[nodiscard]] DropReason drop_reason(packet::TunnelResult result) noexcept;

/// The addresses of an outer header, as the last words of FlowKey hold them.
struct OuterAddresses {
  uint64_t ipv4{0};                    ///< source and destination, raw
  std::array<uint8_t, 2 * 16> ipv6{};  ///< likewise

  /// Of the header at `ip`, which is IPv4's or, unless `four`, IPv6's.
  static OuterAddresses of(const uint8_t* ip, bool four) noexcept {
    OuterAddresses found;
    if (four) {
      found.ipv4 = packet::load_raw64(ip + offsetof(packet::Ipv4Header, src));
    } else {
      std::memcpy(found.ipv6.data(), ip + offsetof(packet::Ipv6Header, src), found.ipv6.size());
    }
    return found;
  }

  void store(match::FlowKey& values) const noexcept {
    std::memcpy(reinterpret_cast<uint8_t*>(&values) + match::kTunnelAddressWord * 8, this,
                sizeof *this);
  }
};
static_assert(match::kTunnelAddressWord * 8 + sizeof(OuterAddresses) == sizeof(match::FlowKey));
static_assert(offsetof(packet::Ipv4Header, dst) == offsetof(packet::Ipv4Header, src) + 4);
static_assert(offsetof(packet::Ipv6Header, dst) == offsetof(packet::Ipv6Header, src) + 16);

}  // namespace headrace::pipeline
