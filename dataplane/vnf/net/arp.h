// SPDX-License-Identifier: Apache-2.0
// ARP for IPv4 over Ethernet (RFC 826): packets of ours, and reading those of others.
#pragma once

#include <rte_mbuf.h>

#include <optional>

#include "packet/headers.h"
#include "vnf/net/address.h"

namespace headrace::vnf {

inline constexpr uint16_t kArpRequest = packet::swap16(1);
inline constexpr uint16_t kArpReply = packet::swap16(2);

/// One end as ARP names it.
struct ArpEnd {
  MacAddress mac;
  Ipv4Address address;  ///< host order
};

/// The ARP message of a frame, or null if it is none for IPv4 over Ethernet.
packet::ArpHeader* arp_of(rte_mbuf* frame);

/// Makes a broadcast request of `sender` for `target`; null if the pool is empty.
rte_mbuf* make_arp_request(rte_mempool* pool, const ArpEnd& sender, Ipv4Address target);

/// Turns a request frame into the reply of `own`.
void answer_arp(rte_mbuf* frame, const ArpEnd& own);

}  // namespace headrace::vnf
