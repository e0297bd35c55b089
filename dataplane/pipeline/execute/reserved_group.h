// SPDX-License-Identifier: Apache-2.0
// The group addresses that bridges don't forward.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

namespace headrace::pipeline {

/// 01:80:c2:00:00:00 to ..:0f (IEEE 802.1Q, table 8-1): spanning tree, pause, LACP, LLDP.
inline bool is_reserved_group(const uint8_t* address) {
  constexpr std::array<uint8_t, 5> kPrefix = {0x01, 0x80, 0xc2, 0x00, 0x00};
  return std::memcmp(address, kPrefix.data(), kPrefix.size()) == 0 && (address[5] & 0xf0) == 0;
}

}  // namespace headrace::pipeline
