// SPDX-License-Identifier: Apache-2.0
// Fields of Ethernet, VLAN, MPLS, PBB and ARP: no checksum covers them.
#include <cstring>

#include "packet/edit.h"

namespace headrace::packet {
namespace {

constexpr size_t kMacSize = 6;

/// Replaces the bits of `mask` in the raw 32-bit word of `frame` at `offset`; `value` is in place.
void replace_bits(std::span<uint8_t> frame, size_t offset, uint32_t mask, uint32_t value) {
  store_be32(&frame[offset], (load_be32(&frame[offset]) & ~mask) | (value & mask));
}

bool write_arp(rte_mbuf* packet, const ParsedPacket& parsed, size_t offset, const uint8_t* from,
               size_t bytes) {
  if (!parsed.has(kArp)) return false;
  std::memcpy(&frame_of(packet)[parsed.l3 + offset], from, bytes);
  return true;
}

bool write_tci(rte_mbuf* packet, const ParsedPacket& parsed, uint16_t mask, uint16_t value) {
  if (parsed.vlan_tags == 0) return false;
  uint8_t* tci = &frame_of(packet)[sizeof(EthernetHeader)];
  store_be16(tci, static_cast<uint16_t>((load_be16(tci) & ~mask) | (value & mask)));
  return true;
}

bool write_mpls(rte_mbuf* packet, const ParsedPacket& parsed, uint32_t mask, uint32_t value) {
  if (!parsed.has(kMpls)) return false;
  replace_bits(frame_of(packet), parsed.l2_end, mask, value);
  return true;
}

bool write_itag(rte_mbuf* packet, const ParsedPacket& parsed, uint32_t mask, uint32_t value) {
  if (!parsed.has(kPbb)) return false;
  replace_bits(frame_of(packet), parsed.l2_end, mask, value);
  return true;
}

}  // namespace

bool set_eth_dst(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* mac) {
  if (parsed.l2_end == 0) return false;
  std::memcpy(rte_pktmbuf_mtod(packet, EthernetHeader*)->dst, mac, kMacSize);
  return true;
}

bool set_eth_src(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* mac) {
  if (parsed.l2_end == 0) return false;
  std::memcpy(rte_pktmbuf_mtod(packet, EthernetHeader*)->src, mac, kMacSize);
  return true;
}

bool set_eth_type(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* type) {
  if (parsed.l2_end == 0) return false;
  std::memcpy(&frame_of(packet)[parsed.l2_end - 2u], type, 2);
  return true;
}

bool set_vlan_vid(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* vid) {
  return write_tci(packet, parsed, 0x0fff, load_be16(vid));
}

bool set_vlan_pcp(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* pcp) {
  return write_tci(packet, parsed, 0xe000, static_cast<uint16_t>(*pcp << 13));
}

bool set_mpls_label(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* label) {
  return write_mpls(packet, parsed, 0xfffff000, load_be32(label) << 12);
}

bool set_mpls_tc(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* tc) {
  return write_mpls(packet, parsed, 0x00000e00, uint32_t{*tc} << 9);
}

bool set_mpls_bos(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* bos) {
  return write_mpls(packet, parsed, 0x00000100, uint32_t{*bos} << 8);
}

bool set_pbb_isid(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* isid) {
  const uint32_t value = uint32_t{isid[0]} << 16 | uint32_t{isid[1]} << 8 | isid[2];
  return write_itag(packet, parsed, 0x00ffffff, value);
}

bool set_pbb_uca(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* uca) {
  return write_itag(packet, parsed, 0x08000000, uint32_t{*uca} << 27);
}

bool set_arp_op(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* op) {
  return write_arp(packet, parsed, offsetof(ArpHeader, operation), op, 2);
}

bool set_arp_spa(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* addr) {
  return write_arp(packet, parsed, offsetof(ArpHeader, sender_ip), addr, 4);
}

bool set_arp_tpa(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* addr) {
  return write_arp(packet, parsed, offsetof(ArpHeader, target_ip), addr, 4);
}

bool set_arp_sha(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* mac) {
  return write_arp(packet, parsed, offsetof(ArpHeader, sender_mac), mac, kMacSize);
}

bool set_arp_tha(rte_mbuf* packet, const ParsedPacket& parsed, const uint8_t* mac) {
  return write_arp(packet, parsed, offsetof(ArpHeader, target_mac), mac, kMacSize);
}

}  // namespace headrace::packet
