// SPDX-License-Identifier: Apache-2.0
// Any bytes as a packet: what parse() promises holds, and edits keep the packet within its buffer.
//
// The first octet chooses the edit, the rest is the frame, in a buffer of its exact size, so that
// AddressSanitizer sees any access beyond it.
#include <cstdlib>

#include "packet/edit.h"
#include "packet/test_packet.h"

namespace headrace::packet {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const ParsedPacket& parsed, size_t size) {
  require(parsed.l2_end <= size);
  if (parsed.has(kArp)) require(parsed.l3 + sizeof(ArpHeader) <= size);
  if (parsed.has(kIpv4)) require(parsed.l3 + sizeof(Ipv4Header) <= size);
  if (parsed.has(kIpv6)) require(parsed.l3 + sizeof(Ipv6Header) <= size);
  if (parsed.has(kMpls) || parsed.has(kPbb)) require(parsed.l2_end + 4u <= size);
  require((parsed.l3 != 0) == parsed.has(kArp | kIpv4 | kIpv6));
  if (parsed.l4 != 0) require(parsed.l4 + l4_header_size(parsed.ip_proto) <= size);
  if (parsed.nd_source_link != 0) require(parsed.l4 + parsed.nd_source_link + 6u <= size);
  if (parsed.nd_target_link != 0) require(parsed.l4 + parsed.nd_target_link + 6u <= size);
}

/// Applies an edit; what comes back must parse as `parsed` says.
void edit(uint8_t choice, rte_mbuf* packet, ParsedPacket& parsed) {
  constexpr uint8_t kValue[16] = {0, 6, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  bool retagged = false;
  switch (choice % 16) {
    case 0:
      retagged = push_vlan(packet, parsed, 0x8100, Depth::full);
      break;
    case 1:
      retagged = pop_vlan(packet, parsed, Depth::full);
      break;
    case 2:
      retagged = push_mpls(packet, parsed, 0x8847, Depth::full);
      break;
    case 3:
      retagged = pop_mpls(packet, parsed, 0x0800, Depth::full);
      break;
    case 4:
      retagged = push_pbb(packet, parsed, Depth::full);
      break;
    case 5:
      retagged = pop_pbb(packet, parsed, Depth::full);
      break;
    case 6:
      dec_nw_ttl(packet, parsed);
      break;
    case 7:
      (void)copy_ttl_in(packet, parsed);
      (void)copy_ttl_out(packet, parsed);
      break;
    case 8:
      (void)set_ip_proto(packet, parsed, kValue + 1);
      break;
    case 9:
      (void)set_ipv6_dst(packet, parsed, kValue);
      (void)set_ipv4_dst(packet, parsed, kValue);
      break;
    case 10:
      (void)set_nd_target(packet, parsed, kValue);
      (void)set_nd_sll(packet, parsed, kValue);
      (void)set_nd_tll(packet, parsed, kValue);
      break;
    case 11:
      for (const uint8_t proto : {kProtoTcp, kProtoUdp, kProtoSctp}) {
        (void)set_l4_dst(packet, parsed, proto, kValue);
      }
      break;
    case 12:
      (void)set_ip_dscp(packet, parsed, kValue + 1);
      (void)set_ipv6_flabel(packet, parsed, kValue);
      break;
    case 13:
      (void)set_icmp_type(packet, parsed, kProtoIcmpv6, kValue);
      (void)set_icmp_code(packet, parsed, kProtoIcmp, kValue);
      break;
    case 14:
      (void)set_arp_tpa(packet, parsed, kValue);
      (void)set_pbb_isid(packet, parsed, kValue);
      break;
    default:
      (void)set_mpls_label(packet, parsed, kValue);
      (void)dec_mpls_ttl(packet, parsed);
      break;
  }
  if (!retagged) return;
  const ParsedPacket again = parse(frame_of(packet), Depth::full);
  require(std::memcmp(&again, &parsed, sizeof again) == 0);
}

}  // namespace
}  // namespace headrace::packet

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace::packet;
  if (size == 0 || size > 2048) return 0;
  const std::span<const uint8_t> frame(data + 1, size - 1);
  TestPacket packet(frame, 18);
  for (const Depth depth : {Depth::l2, Depth::l3, Depth::l4, Depth::full}) {
    check(parse(frame_of(packet.mbuf()), depth), frame.size());
  }
  ParsedPacket parsed = parse(frame_of(packet.mbuf()), Depth::full);
  edit(data[0], packet.mbuf(), parsed);
  check(parsed, packet.mbuf()->data_len);
  return 0;
}
