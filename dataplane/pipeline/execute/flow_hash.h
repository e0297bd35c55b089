// SPDX-License-Identifier: Apache-2.0
// A number per flow: select groups and the source ports of tunnels go by it.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "packet/parse.h"

namespace headrace::pipeline {

/// A number that is the same for all packets of a flow: from the addresses, protocol and ports of
/// IP; without IP, from the Ethernet addresses, and the addresses of ARP or the type. So an IP
/// packet keeps it when its MAC addresses are rewritten.
[[nodiscard]] uint64_t flow_hash64(const rte_mbuf* packet,
                                   const packet::ParsedPacket& parsed) noexcept;
/// The flow's number with the Ethernet addresses in it: by its upper half a select group goes, so
/// that flows which differ in nothing else spread too.
[[nodiscard]] uint64_t select_hash(const rte_mbuf* packet, uint64_t flow_hash64) noexcept;
/// A number that is the same for a flow and for what answers it: addresses and ports in either
/// order, without the Ethernet addresses of IP packets. Paired select groups go by it.
[[nodiscard]] uint64_t pair_hash(const rte_mbuf* packet,
                                 const packet::ParsedPacket& parsed) noexcept;
/// The flow's number's lower half, which a tunnel shows as its source port: were it the same half,
/// all packets of a bucket would look alike.
[[nodiscard]] inline uint32_t entropy_of(uint64_t flow_hash64) {
  return static_cast<uint32_t>(flow_hash64);
}

/// Mixes `bits` into a hash.
constexpr uint64_t mix_hash(uint64_t hash, uint64_t bits) {
  hash = (hash ^ bits) * 0x9e3779b97f4a7c15ull;
  return hash ^ hash >> 32;
}

}  // namespace headrace::pipeline
