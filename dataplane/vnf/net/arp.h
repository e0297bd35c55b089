// SPDX-License-Identifier: Apache-2.0
// ARP for IPv4 over Ethernet (RFC 826): making and parsing messages.
#pragma once

#include <rte_mbuf.h>

#include <optional>

#include "packet/headers.h"
#include "vnf/net/address.h"

namespace headrace::vnf {

inline constexpr uint16_t kArpRequest = packet::swap16(1);
inline constexpr uint16_t kArpReply = packet::swap16(2);

/// The address pair of one end.
struct ArpEnd {
  MacAddress mac;
  Ipv4Address address;  ///< host order
};

/// The ARP message of a frame; null if it isn't ARP for IPv4 over Ethernet.
packet::ArpHeader* arp_of(rte_mbuf* frame);

/// Makes a broadcast request from `sender` for `target`; null if the pool is empty.
rte_mbuf* make_arp_request(rte_mempool* pool, const ArpEnd& sender, Ipv4Address target);

/// Rewrites a request frame in place to the reply from `own`.
void answer_arp(rte_mbuf* frame, const ArpEnd& own);

}  // namespace headrace::vnf
