// SPDX-License-Identifier: Apache-2.0
// Packet editing on an rte_mbuf: push and pop tags, TTLs, and fields with their checksums.
//
// Contract, for all functions:
// * The mbuf is writable (reference count 1, direct), its headers lie in its first segment, and
//   `parsed` describes it, from a parse deep enough for the edit (packet::Depth::l4 for fields of
//   IP, since a change of address, DSCP or protocol repairs the L4 checksum).
// * True: done, and `parsed` describes the packet as it is now. A push or pop re-parses at the
// depth
//   given; match::refresh() then brings the FlowKey up to date.
// * False: the packet lacks the header or the room; packet and `parsed` are untouched. OpenFlow 1.3
//   leaves such cases undefined; the pipeline applies the rest of the actions or drops, by name.
// * Checksums are repaired incrementally (RFC 1624): a packet that came with a wrong one keeps a
//   wrong one. UDP checksum 0 over IPv4 stays 0. SCTP's CRC does not cover addresses; a port's
//   change goes into it by difference too, as the CRC is linear.
//
// Tag order (OpenFlow 1.3.5, 5.12: the outermost valid location of the tag): a pushed VLAN tag goes
// directly behind the Ethernet addresses, a pushed MPLS entry behind the VLAN tags, where
// Ethernet's payload begins; push-PBB puts a whole new backbone header in front. New tags copy from
// the outermost existing ones (5.12.1): VID and PCP; label, TC and TTL, or the TTL of IP; the
// I-SID, and PCP to I-PCP; what does not exist is 0.
//
// Thread safety: none shared; one packet, one thread.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <span>

#include "packet/parse.h"

namespace headrace::packet {

/// The bytes of the first segment.
inline std::span<uint8_t> frame_of(rte_mbuf* packet) {
  return {rte_pktmbuf_mtod(packet, uint8_t*), packet->data_len};
}

// --- tags --------------------------------------------------------------------------------------

/// Pushes a VLAN tag; `tpid` 0x8100 or 0x88a8 in host order.
[[nodiscard]] bool push_vlan(rte_mbuf* packet, ParsedPacket& parsed, uint16_t tpid, Depth depth);
/// Removes the outermost VLAN tag. All pops pad what is left to Ethernet's minimum of 60 octets.
[[nodiscard]] bool pop_vlan(rte_mbuf* packet, ParsedPacket& parsed, Depth depth);
/// Pushes an MPLS label stack entry; `type` 0x8847 or 0x8848 in host order.
[[nodiscard]] bool push_mpls(rte_mbuf* packet, ParsedPacket& parsed, uint16_t type, Depth depth);
/// Removes the outermost label stack entry; the type becomes `type` (host order).
[[nodiscard]] bool pop_mpls(rte_mbuf* packet, ParsedPacket& parsed, uint16_t type, Depth depth);
/// Encapsulates the frame in a backbone header with an I-TAG.
[[nodiscard]] bool push_pbb(rte_mbuf* packet, ParsedPacket& parsed, Depth depth);
/// Removes backbone header and I-TAG: the customer frame remains.
[[nodiscard]] bool pop_pbb(rte_mbuf* packet, ParsedPacket& parsed, Depth depth);

// --- TTLs --------------------------------------------------------------------------------------

/// What became of a TTL decrement. `expired`: it was 0 or 1; the packet is unchanged and must not
/// be forwarded (packet-in with OFPR_INVALID_TTL where a controller wants it).
enum class TtlResult : uint8_t { done, expired, absent };

/// Decrements the TTL of IPv4 or the hop limit of IPv6.
inline TtlResult dec_nw_ttl(rte_mbuf* packet, const ParsedPacket& parsed);
[[nodiscard]] bool set_nw_ttl(rte_mbuf* packet, const ParsedPacket& parsed, uint8_t ttl);
TtlResult dec_mpls_ttl(rte_mbuf* packet, const ParsedPacket& parsed);
[[nodiscard]] bool set_mpls_ttl(rte_mbuf* packet, const ParsedPacket& parsed, uint8_t ttl);
/// Copies the TTL from the next-to-outermost header that has one to the outermost.
[[nodiscard]] bool copy_ttl_out(rte_mbuf* packet, const ParsedPacket& parsed);
/// The other way.
[[nodiscard]] bool copy_ttl_in(rte_mbuf* packet, const ParsedPacket& parsed);

// --- fields (values in network order, as OXM carries them) -------------------------------------

[[nodiscard]] bool set_eth_dst(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* mac);
[[nodiscard]] bool set_eth_src(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* mac);
/// Writes the type after the VLAN tags; the caller re-parses.
[[nodiscard]] bool set_eth_type(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* type);
/// `vid`: two octets, OFPVID_PRESENT ignored.
[[nodiscard]] bool set_vlan_vid(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* vid);
[[nodiscard]] bool set_vlan_pcp(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* pcp);
[[nodiscard]] bool set_mpls_label(rte_mbuf* packet, const ParsedPacket& parsed,
                                  const uint8_t* label);
[[nodiscard]] bool set_mpls_tc(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* tc);
[[nodiscard]] bool set_mpls_bos(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* bos);
/// `isid`: three octets.
[[nodiscard]] bool set_pbb_isid(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* isid);
[[nodiscard]] bool set_pbb_uca(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* uca);

[[nodiscard]] bool set_ip_dscp(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* dscp);
[[nodiscard]] bool set_ip_ecn(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* ecn);
/// Repairs the checksum of the L4 header that was parsed, whose pseudo-header holds the protocol.
/// The caller re-parses: what the L4 header is has changed.
[[nodiscard]] bool set_ip_proto(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* proto);
[[nodiscard]] bool set_ipv4_src(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* addr);
[[nodiscard]] bool set_ipv4_dst(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* addr);
[[nodiscard]] bool set_ipv6_src(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* addr);
[[nodiscard]] bool set_ipv6_dst(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* addr);
/// `label`: four octets, the flow label in the low 20 bits.
[[nodiscard]] bool set_ipv6_flabel(rte_mbuf* packet, const ParsedPacket& parsed,
                                   const uint8_t* label);

/// The ports of TCP, UDP or SCTP, whichever the packet has; `proto` is the one that the field
/// names (OXM_OF_TCP_SRC...), and another one in the packet is false.
[[nodiscard]] bool set_l4_src(rte_mbuf* packet, const ParsedPacket& parsed, uint8_t proto,
                              const uint8_t* port);
[[nodiscard]] bool set_l4_dst(rte_mbuf* packet, const ParsedPacket& parsed, uint8_t proto,
                              const uint8_t* port);
/// ICMP or ICMPv6, as `proto` says.
[[nodiscard]] bool set_icmp_type(rte_mbuf* packet, const ParsedPacket& parsed, uint8_t proto,
                                 const uint8_t* type);
[[nodiscard]] bool set_icmp_code(rte_mbuf* packet, const ParsedPacket& parsed, uint8_t proto,
                                 const uint8_t* code);

[[nodiscard]] bool set_arp_op(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* op);
[[nodiscard]] bool set_arp_spa(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* addr);
[[nodiscard]] bool set_arp_tpa(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* addr);
[[nodiscard]] bool set_arp_sha(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* mac);
[[nodiscard]] bool set_arp_tha(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* mac);

/// Neighbor discovery; `parsed` needs depth full.
[[nodiscard]] bool set_nd_target(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* addr);
[[nodiscard]] bool set_nd_sll(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* mac);
[[nodiscard]] bool set_nd_tll(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* mac);

// --- inline: what an L3 pipeline does to every packet -------------------------------------------

inline TtlResult dec_nw_ttl(rte_mbuf* packet, const ParsedPacket& parsed) {
  uint8_t* l3 = rte_pktmbuf_mtod_offset(packet, uint8_t*, parsed.l3);
  if (parsed.has(kIpv4)) {
    auto* ip = reinterpret_cast<Ipv4Header*>(l3);
    if (ip->ttl <= 1) return TtlResult::expired;
    --ip->ttl;
    // The TTL is the high octet of its word: the checksum grows by 0x0100, with end-around carry
    // (RFC 1141).
    const uint32_t sum = uint32_t{ip->checksum} + swap16(0x0100);
    ip->checksum = static_cast<uint16_t>(sum + (sum >= 0xffff ? 1 : 0));
    return TtlResult::done;
  }
  if (parsed.has(kIpv6)) {
    auto* ip = reinterpret_cast<Ipv6Header*>(l3);
    if (ip->hop_limit <= 1) return TtlResult::expired;
    --ip->hop_limit;
    return TtlResult::done;
  }
  return TtlResult::absent;
}

}  // namespace headrace::packet
