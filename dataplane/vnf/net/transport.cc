// SPDX-License-Identifier: Apache-2.0
#include "vnf/net/transport.h"

#include "vnf/net/ipv4_frame.h"

namespace headrace::vnf {
namespace {

constexpr size_t kIcmpIdentifier = 4;  ///< offset in the ICMP header
constexpr size_t kIcmpLeast = 8;

/// Updates a checksum for a changed address and a changed 16-bit word.
uint16_t update_checksum(uint16_t checksum, uint32_t old_address, uint32_t new_address,
                         uint16_t old_word, uint16_t new_word) {
  return packet::update16(packet::update32(checksum, old_address, new_address), old_word, new_word);
}

}  // namespace

bool is_icmp_query(uint8_t type) {
  return type == 0 || type == 8 || (type >= 13 && type <= 18);
}

std::optional<FiveTuple> five_tuple_of(rte_mbuf* frame) {
  const auto& ip = ipv4_of(frame);
  const auto l4 = l4_of(frame);
  FiveTuple tuple{.src = packet::swap32(ip.src), .dst = packet::swap32(ip.dst), .proto = ip.proto};
  const auto take_ports = [&](size_t least) {
    if (l4.size() < least) return false;
    tuple.src_port = packet::load_be16(&l4[0]);
    tuple.dst_port = packet::load_be16(&l4[2]);
    return true;
  };
  switch (ip.proto) {
    case packet::kProtoTcp:
      if (!take_ports(sizeof(packet::TcpHeader))) return std::nullopt;
      break;
    case packet::kProtoUdp:
      if (!take_ports(sizeof(packet::UdpHeader))) return std::nullopt;
      break;
    case packet::kProtoSctp:
      if (!take_ports(sizeof(packet::SctpHeader))) return std::nullopt;
      break;
    case packet::kProtoIcmp:
      if (l4.size() < kIcmpLeast) return std::nullopt;
      if (is_icmp_query(l4[0])) {
        tuple.src_port = tuple.dst_port = packet::load_be16(&l4[kIcmpIdentifier]);
      }
      break;
    default:
      break;
  }
  return tuple;
}

uint8_t tcp_flags_of(rte_mbuf* frame) {
  return ipv4_of(frame).proto == packet::kProtoTcp ? l4_of(frame)[13] : uint8_t{0};
}

void set_endpoint(rte_mbuf* frame, End end, Ipv4Address address, uint16_t port) {
  auto& ip = ipv4_of(frame);
  const auto l4 = l4_of(frame);
  const bool source = end == End::source;
  const uint32_t old_address = source ? ip.src : ip.dst;
  const uint32_t new_address = packet::swap32(address);
  const uint16_t new_port = packet::swap16(port);
  uint8_t* const port_at = l4.data() + (source ? 0 : 2);
  if (ip.proto == packet::kProtoTcp) {
    auto& tcp = *reinterpret_cast<packet::TcpHeader*>(l4.data());
    tcp.checksum = update_checksum(tcp.checksum, old_address, new_address,
                                   packet::load_raw16(port_at), new_port);
    packet::store_raw16(port_at, new_port);
  } else if (ip.proto == packet::kProtoUdp) {
    auto& udp = *reinterpret_cast<packet::UdpHeader*>(l4.data());
    if (udp.checksum != 0) {
      udp.checksum = packet::udp_nonzero(update_checksum(udp.checksum, old_address, new_address,
                                                         packet::load_raw16(port_at), new_port));
    }
    packet::store_raw16(port_at, new_port);
  } else if (ip.proto == packet::kProtoIcmp && is_icmp_query(l4[0])) {
    auto& icmp = *reinterpret_cast<packet::IcmpHeader*>(l4.data());
    uint8_t* const identifier = &l4[kIcmpIdentifier];
    icmp.checksum = packet::update16(icmp.checksum, packet::load_raw16(identifier), new_port);
    packet::store_raw16(identifier, new_port);
  }
  ip.checksum = packet::update32(ip.checksum, old_address, new_address);
  (source ? ip.src : ip.dst) = new_address;
}

}  // namespace headrace::vnf
