// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/flow_hash.h"

#include <algorithm>

#include "packet/bytes.h"

namespace headrace::pipeline {
namespace {

bool has_ports(const packet::ParsedPacket& parsed) {
  return parsed.l4 != 0 && !parsed.has(packet::kFragment) &&
         (parsed.ip_proto == packet::kProtoTcp || parsed.ip_proto == packet::kProtoUdp ||
          parsed.ip_proto == packet::kProtoSctp);
}

}  // namespace

uint64_t flow_hash64(const rte_mbuf* packet, const packet::ParsedPacket& parsed) noexcept {
  const uint8_t* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
  if (packet->data_len < 14) return 0;
  uint64_t hash = parsed.ip_proto;
  if (parsed.has(packet::kIpv4)) {
    hash = mix_hash(hash, packet::load_raw64(frame + parsed.l3 + 12));
  } else if (parsed.has(packet::kIpv6)) {
    for (size_t i = 0; i < 32; i += 8)
      hash = mix_hash(hash, packet::load_raw64(frame + parsed.l3 + 8 + i));
  } else if (parsed.has(packet::kArp)) {
    hash = mix_hash(packet::load_raw64(frame), packet::load_raw32(frame + 8));
    const uint64_t sender = packet::load_raw32(frame + parsed.l3 + 14);
    hash = mix_hash(hash, sender << 32 | packet::load_raw32(frame + parsed.l3 + 24));
  } else {
    hash = mix_hash(packet::load_raw64(frame), packet::load_raw32(frame + 8));
    hash = mix_hash(hash, parsed.eth_type);
  }
  if (has_ports(parsed)) hash = mix_hash(hash, packet::load_raw32(frame + parsed.l4));
  return mix_hash(hash, 0);
}

uint64_t pair_hash(const rte_mbuf* packet, const packet::ParsedPacket& parsed) noexcept {
  const uint8_t* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
  if (packet->data_len < 14) return 0;
  const uint8_t* l3 = frame + parsed.l3;
  uint64_t kind = parsed.ip_proto;
  uint64_t one;
  uint64_t other;
  if (parsed.has(packet::kIpv4)) {
    one = packet::load_raw32(l3 + 12);
    other = packet::load_raw32(l3 + 16);
  } else if (parsed.has(packet::kIpv6)) {
    one = mix_hash(mix_hash(0, packet::load_raw64(l3 + 8)), packet::load_raw64(l3 + 16));
    other = mix_hash(mix_hash(0, packet::load_raw64(l3 + 24)), packet::load_raw64(l3 + 32));
  } else if (parsed.has(packet::kArp)) {
    kind = parsed.eth_type;
    one = packet::load_raw32(l3 + 14);
    other = packet::load_raw32(l3 + 24);
  } else {
    kind = parsed.eth_type;
    other = packet::load_raw32(frame) | uint64_t{packet::load_raw16(frame + 4)} << 32;
    one = packet::load_raw32(frame + 6) | uint64_t{packet::load_raw16(frame + 10)} << 32;
  }
  if (has_ports(parsed)) {
    one = mix_hash(one, packet::load_raw16(frame + parsed.l4));
    other = mix_hash(other, packet::load_raw16(frame + parsed.l4 + 2));
  }
  return mix_hash(mix_hash(mix_hash(kind, std::min(one, other)), std::max(one, other)), 0);
}

uint64_t select_hash(const rte_mbuf* packet, uint64_t flow_hash64) noexcept {
  const uint8_t* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
  if (packet->data_len < 14) return flow_hash64;
  return mix_hash(mix_hash(flow_hash64, packet::load_raw64(frame)), packet::load_raw32(frame + 8));
}

}  // namespace headrace::pipeline
