// SPDX-License-Identifier: Apache-2.0
// From a burst of packets to a burst of FlowKey: the first thing that happens to a packet.
//
// What: for each packet, parse (packet/parse.h) and fill the words of its FlowKey that the
// pipeline needs. The pipeline's compiler asks once, with the union of the words that its tables
// match and its actions need, for the extractor of the least depth that serves it; a burst then
// costs one indirect call.
//
//   const Extractor extract = extractor_for(depth_for(words));   // at flow-mod time
//   extract(packets, {in_port, in_phy_port}, values, parsed);    // per burst
//
// Depth l2 fills words 0..2, l3 and l4 words 0..4, full all. metadata and tunnel_id (words 5, 6)
// are 0 at every depth; so are the tunnel's addresses (words 19..23) at depth full. Words beyond
// the depth are undefined. l3 and l4 differ in the ports.
//
// How fast: an untagged frame with a usual header (IPv4 without options, or TCP or UDP on it) takes
// a straight path without a call; all else goes through the general parser.
//
// Batch contract: at most kBurst packets; `values` and `parsed` have room for packets.size(), and
// values[i], parsed[i] belong to packets[i]. Thread safety: pure functions of their arguments.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <span>

#include "match/fields/fields.h"
#include "packet/parse.h"

namespace headrace::match {

using packet::Depth;

/// The port a burst came from, host order.
struct BurstPort {
  uint32_t in_port;
  uint32_t in_phy_port;
};

/// What an extractor saw of a burst as a whole, on its way: nothing but certainties, so that each
/// may be left out.
struct BurstMetadata {
  WordSet differ{kAllWords};  ///< a word outside of it is the same in all packets
  bool plain_ipv4{false};     ///< all are untagged IPv4 with a header of 20 octets, and
  bool ttl_lasts{false};      ///< their TTLs are all above 1
};

using Extractor = BurstMetadata (*)(std::span<rte_mbuf* const> packets, BurstPort port,
                                    FlowKey* values, packet::ParsedPacket* parsed) noexcept;

/// The least depth that fills all of `needed`. Actions that edit a header need it parsed: the
/// caller adds the words of the fields that they touch (word 3 for a TTL).
constexpr Depth depth_for(WordSet needed) {
  if ((needed & ~WordSet{0x7f}) != 0) return Depth::full;
  if ((needed & (1u << 4)) != 0) return Depth::l4;
  if ((needed & (1u << 3)) != 0) return Depth::l3;
  return Depth::l2;
}

/// The extractor for a depth, built for this processor.
[[nodiscard]] Extractor extractor_for(Depth depth) noexcept;

/// Parses one packet again after its headers were changed (push, pop, set eth_type or ip_proto).
/// in_port, in_phy_port, metadata, tunnel_id and the tunnel's addresses stay.
void refresh(Depth depth, rte_mbuf* packet, FlowKey& values, packet::ParsedPacket& parsed) noexcept;

/// The same, with `parsed` already right (packet/edit.h's pushes and pops leave it so).
void refresh_values(Depth depth, const rte_mbuf* packet, FlowKey& values,
                    const packet::ParsedPacket& parsed) noexcept;

}  // namespace headrace::match
