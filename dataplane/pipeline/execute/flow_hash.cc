// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/flow_hash.h"

#include "packet/bytes.h"

namespace headrace::pipeline {

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
  const bool ports =
      parsed.l4 != 0 && !parsed.has(packet::kFragment) &&
      (parsed.ip_proto == packet::kProtoTcp || parsed.ip_proto == packet::kProtoUdp ||
       parsed.ip_proto == packet::kProtoSctp);
  if (ports) hash = mix_hash(hash, packet::load_raw32(frame + parsed.l4));
  return mix_hash(hash, 0);
}

uint64_t select_hash(const rte_mbuf* packet, uint64_t flow_hash64) noexcept {
  const uint8_t* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
  if (packet->data_len < 14) return flow_hash64;
  return mix_hash(mix_hash(flow_hash64, packet::load_raw64(frame)), packet::load_raw32(frame + 8));
}

}  // namespace headrace::pipeline
