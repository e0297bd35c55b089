// SPDX-License-Identifier: Apache-2.0
// Push and pop of VLAN, MPLS and PBB.
#include <cstring>

#include "packet/edit.h"
#include "packet/headroom.h"
#include "packet/offload.h"

namespace headrace::packet {
namespace {

constexpr size_t kAddresses = offsetof(EthernetHeader, type);
constexpr uint32_t kMinFrame = 60;  // without FCS

/// Makes room for `bytes` at `offset` of the packet by moving what lies before it towards the
/// front. Null without headroom; else the packet's new first byte.
uint8_t* open_gap(rte_mbuf* packet, size_t offset, size_t bytes) {
  if (!headers_can_move(packet, static_cast<int>(bytes))) return nullptr;
  uint8_t* begin = prepend(packet, static_cast<uint16_t>(bytes));
  if (begin == nullptr) return nullptr;
  std::memmove(begin, begin + bytes, offset);
  headers_moved(packet, static_cast<int>(bytes));
  return begin;
}

/// Removes `bytes` at `offset` by moving what lies before them towards the back.
uint8_t* close_gap(rte_mbuf* packet, size_t offset, size_t bytes) {
  auto* begin = rte_pktmbuf_mtod(packet, uint8_t*);
  std::memmove(begin + bytes, begin, offset);
  headers_moved(packet, -static_cast<int>(bytes));
  return reinterpret_cast<uint8_t*>(rte_pktmbuf_adj(packet, static_cast<uint16_t>(bytes)));
}

/// Fills a frame that a removed tag left too short for Ethernet with zeros, as a bridge must
/// (IEEE 802.1Q, "minimum PDU size"). A frame without room for it stays as it is: it then goes out
/// by a port whose medium has no minimum, or whose device pads.
void pad_to_minimum(rte_mbuf* packet) {
  if (packet->pkt_len >= kMinFrame || packet->nb_segs != 1) return;
  const auto missing = static_cast<uint16_t>(kMinFrame - packet->pkt_len);
  if (char* room = rte_pktmbuf_append(packet, missing)) std::memset(room, 0, missing);
}

/// Moves all that was parsed behind the VLAN tags by the tags that came (4) or went (-4). Only
/// where a parse would find nothing else: not where a tag is beyond those that are parsed.
void shift_behind_tags(ParsedPacket& parsed, int octets) {
  const auto moved = [octets](uint16_t offset) {
    return static_cast<uint16_t>(offset == 0 ? 0 : offset + octets);
  };
  parsed.vlan_tags = static_cast<uint8_t>(parsed.vlan_tags + (octets > 0 ? 1 : -1));
  parsed.l2_end = moved(parsed.l2_end);
  parsed.l3 = moved(parsed.l3);
  parsed.l4 = moved(parsed.l4);
}

/// The TTL that a first label stack entry takes over from the packet; 0 if it has none.
uint8_t ttl_to_copy(const uint8_t* frame, const ParsedPacket& parsed) {
  if (parsed.has(kIpv4)) return frame[parsed.l3 + offsetof(Ipv4Header, ttl)];
  if (parsed.has(kIpv6)) return frame[parsed.l3 + offsetof(Ipv6Header, hop_limit)];
  return 0;
}

}  // namespace

bool push_vlan(rte_mbuf* packet, ParsedPacket& parsed, uint16_t tpid, Depth depth) {
  if (parsed.l2_end == 0) return false;
  constexpr uint16_t kPcpAndVid = swap16(0xefff);  // the drop eligible bit is not copied
  const uint16_t tci =
      parsed.vlan_tags != 0
          ? load_raw16(frame_of(packet).data() + sizeof(EthernetHeader)) & kPcpAndVid
          : 0;
  uint8_t* frame = open_gap(packet, kAddresses, sizeof(VlanTag));
  if (frame == nullptr) return false;
  store_be16(frame + kAddresses, tpid);
  store_raw16(frame + kAddresses + offsetof(VlanTag, tci), tci);
  if (parsed.vlan_tags < kMaxVlanTags && !parsed.has(kMalformed)) [[likely]] {
    shift_behind_tags(parsed, sizeof(VlanTag));
  } else {
    parsed = parse(frame_of(packet), depth);
  }
  return true;
}

bool pop_vlan(rte_mbuf* packet, ParsedPacket& parsed, Depth depth) {
  if (parsed.vlan_tags == 0) return false;
  close_gap(packet, kAddresses, sizeof(VlanTag));
  const uint32_t length = packet->pkt_len;
  pad_to_minimum(packet);
  const bool same = packet->pkt_len == length && !parsed.has(kMalformed);
  if (same && parsed.vlan_tags < kMaxVlanTags) [[likely]] {
    shift_behind_tags(parsed, -static_cast<int>(sizeof(VlanTag)));
  } else {
    parsed = parse(frame_of(packet), depth);
  }
  return true;
}

bool push_mpls(rte_mbuf* packet, ParsedPacket& parsed, uint16_t type, Depth depth) {
  if (parsed.l2_end == 0) return false;
  const uint8_t* old = frame_of(packet).data();
  constexpr uint32_t kBottom = 0x100;
  const uint32_t entry = parsed.has(kMpls) ? load_be32(old + parsed.l2_end) & ~kBottom
                                           : kBottom | ttl_to_copy(old, parsed);
  uint8_t* frame = open_gap(packet, parsed.l2_end, sizeof(MplsEntry));
  if (frame == nullptr) return false;
  store_be16(frame + parsed.l2_end - 2, type);
  store_be32(frame + parsed.l2_end, entry);
  parsed = parse(frame_of(packet), depth);
  return true;
}

bool pop_mpls(rte_mbuf* packet, ParsedPacket& parsed, uint16_t type, Depth depth) {
  if (!parsed.has(kMpls)) return false;
  uint8_t* frame = close_gap(packet, parsed.l2_end, sizeof(MplsEntry));
  store_be16(frame + parsed.l2_end - 2, type);
  pad_to_minimum(packet);
  parsed = parse(frame_of(packet), depth);
  return true;
}

bool push_pbb(rte_mbuf* packet, ParsedPacket& parsed, Depth depth) {
  if (parsed.l2_end == 0) return false;
  const uint8_t* old = frame_of(packet).data();
  uint32_t tci = 0;
  if (parsed.vlan_tags != 0) {
    tci |= uint32_t{load_be16(old + sizeof(EthernetHeader)) & 0xe000u} << 16;  // PCP to I-PCP
  }
  if (parsed.has(kPbb)) tci |= load_be32(old + parsed.l2_end) & 0x00ffffff;
  if (!headers_can_move(packet, kPbbEncapsulation)) return false;
  uint8_t* frame = prepend(packet, kPbbEncapsulation);
  if (frame == nullptr) return false;
  headers_moved(packet, kPbbEncapsulation);
  std::memcpy(frame, frame + kPbbEncapsulation, kAddresses);
  store_raw16(frame + kAddresses, kTypePbb);
  store_be32(frame + sizeof(EthernetHeader), tci);
  parsed = parse(frame_of(packet), depth);
  return true;
}

bool pop_pbb(rte_mbuf* packet, ParsedPacket& parsed, Depth depth) {
  if (!parsed.has(kPbb)) return false;
  const size_t outer = parsed.l2_end + sizeof(PbbITag);
  if (packet->data_len < outer + sizeof(EthernetHeader)) return false;
  rte_pktmbuf_adj(packet, static_cast<uint16_t>(outer));
  headers_moved(packet, -static_cast<int>(outer));
  pad_to_minimum(packet);
  parsed = parse(frame_of(packet), depth);
  return true;
}

}  // namespace headrace::packet
