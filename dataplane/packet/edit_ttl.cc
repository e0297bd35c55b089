// SPDX-License-Identifier: Apache-2.0
// TTLs of IP and MPLS, and copying them between the two outermost headers that have one.
#include "packet/checksum.h"
#include "packet/edit.h"

namespace headrace::packet {
namespace {

constexpr size_t kMplsTtl = 3;  ///< octet of the TTL in a label stack entry
constexpr uint32_t kMplsBottom = 0x100;

void write_ipv4_ttl(uint8_t* l3, uint8_t ttl) {
  auto* ip = reinterpret_cast<Ipv4Header*>(l3);
  uint8_t* ttl_word = l3 + offsetof(Ipv4Header, ttl);
  const uint16_t before = load_raw16(ttl_word);
  ip->ttl = ttl;
  ip->checksum = update16(ip->checksum, before, load_raw16(ttl_word));
}

/// A header's TTL wherever it lies: an octet, and the IPv4 header to repair if it is in one.
struct TtlPlace {
  uint8_t* ttl{nullptr};
  uint8_t* ipv4{nullptr};

  void write(uint8_t value) const {
    if (ipv4 != nullptr) {
      write_ipv4_ttl(ipv4, value);
    } else {
      *ttl = value;
    }
  }
};

/// The TTL of the header below the outermost label stack entry: another entry, or IP, told by its
/// version as nothing in the stack names it.
TtlPlace below_outer_entry(std::span<uint8_t> frame, const ParsedPacket& parsed) {
  const size_t outer = parsed.l2_end;
  const size_t inner = outer + sizeof(MplsEntry);
  if ((load_be32(&frame[outer]) & kMplsBottom) == 0) {
    if (frame.size() < inner + sizeof(MplsEntry)) return {};
    return {&frame[inner + kMplsTtl], nullptr};
  }
  if (frame.size() >= inner + sizeof(Ipv4Header) && frame[inner] >> 4 == 4) {
    return {&frame[inner + offsetof(Ipv4Header, ttl)], &frame[inner]};
  }
  if (frame.size() >= inner + sizeof(Ipv6Header) && frame[inner] >> 4 == 6) {
    return {&frame[inner + offsetof(Ipv6Header, hop_limit)], nullptr};
  }
  return {};
}

}  // namespace

bool set_nw_ttl(rte_mbuf* packet, const ParsedPacket& parsed, uint8_t ttl) {
  uint8_t* l3 = rte_pktmbuf_mtod_offset(packet, uint8_t*, parsed.l3);
  if (parsed.has(kIpv4)) {
    write_ipv4_ttl(l3, ttl);
    return true;
  }
  if (parsed.has(kIpv6)) {
    reinterpret_cast<Ipv6Header*>(l3)->hop_limit = ttl;
    return true;
  }
  return false;
}

TtlResult dec_mpls_ttl(rte_mbuf* packet, const ParsedPacket& parsed) {
  if (!parsed.has(kMpls)) return TtlResult::absent;
  uint8_t& ttl = frame_of(packet)[parsed.l2_end + kMplsTtl];
  if (ttl <= 1) return TtlResult::expired;
  --ttl;
  return TtlResult::done;
}

bool set_mpls_ttl(rte_mbuf* packet, const ParsedPacket& parsed, uint8_t ttl) {
  if (!parsed.has(kMpls)) return false;
  frame_of(packet)[parsed.l2_end + kMplsTtl] = ttl;
  return true;
}

bool copy_ttl_out(rte_mbuf* packet, const ParsedPacket& parsed) {
  if (!parsed.has(kMpls)) return false;
  const std::span<uint8_t> frame = frame_of(packet);
  const TtlPlace inner = below_outer_entry(frame, parsed);
  if (inner.ttl == nullptr) return false;
  frame[parsed.l2_end + kMplsTtl] = *inner.ttl;
  return true;
}

bool copy_ttl_in(rte_mbuf* packet, const ParsedPacket& parsed) {
  if (!parsed.has(kMpls)) return false;
  const std::span<uint8_t> frame = frame_of(packet);
  const TtlPlace inner = below_outer_entry(frame, parsed);
  if (inner.ttl == nullptr) return false;
  inner.write(frame[parsed.l2_end + kMplsTtl]);
  return true;
}

}  // namespace headrace::packet
