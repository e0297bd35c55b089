// SPDX-License-Identifier: Apache-2.0
#include "vnf/net/nat_icmp.h"

#include "vnf/net/ipv4_frame.h"

namespace headrace::vnf {
namespace {

constexpr size_t kIcmpError = 8;  ///< the error's own header
constexpr size_t kMinQuoted = 8;  ///< octets of transport that RFC 792 guarantees

packet::Ipv4Header& quoted_ip(rte_mbuf* frame) {
  return *reinterpret_cast<packet::Ipv4Header*>(l4_of(frame).data() + kIcmpError);
}

uint8_t* quoted_l4(rte_mbuf* frame) {
  auto& ip = quoted_ip(frame);
  return reinterpret_cast<uint8_t*>(&ip) + ipv4_header_size(ip);
}

}  // namespace

std::optional<FiveTuple> quoted_endpoints(rte_mbuf* frame) {
  const auto l4 = l4_of(frame);
  if (l4.size() < kIcmpError + sizeof(packet::Ipv4Header) + kMinQuoted) return std::nullopt;
  const auto& ip = quoted_ip(frame);
  const size_t header = ipv4_header_size(ip);
  if (ip.version_ihl >> 4 != 4 || header < sizeof ip ||
      l4.size() < kIcmpError + header + kMinQuoted || is_later_fragment(ip)) {
    return std::nullopt;
  }
  const uint8_t* transport = quoted_l4(frame);
  FiveTuple tuple{.src = packet::swap32(ip.src), .dst = packet::swap32(ip.dst), .proto = ip.proto};
  if (ip.proto == packet::kProtoIcmp) {
    if (!is_icmp_query(transport[0])) return std::nullopt;
    tuple.src_port = tuple.dst_port = packet::load_be16(transport + 4);
  } else {
    tuple.src_port = packet::load_be16(transport);
    tuple.dst_port = packet::load_be16(transport + 2);
  }
  return tuple;
}

void translate_quoted(rte_mbuf* frame, End end, Ipv4Address address, uint16_t port) {
  auto& ip = quoted_ip(frame);
  uint8_t* const transport = quoted_l4(frame);
  const bool source = end == End::source;
  const uint32_t old_address = source ? ip.src : ip.dst;
  const uint32_t new_address = packet::swap32(address);
  const uint16_t new_port = packet::swap16(port);
  if (ip.proto == packet::kProtoIcmp) {
    auto& icmp = *reinterpret_cast<packet::IcmpHeader*>(transport);
    icmp.checksum = packet::update16(icmp.checksum, packet::load_raw16(transport + 4), new_port);
    packet::store_raw16(transport + 4, new_port);
  } else {
    uint8_t* const port_at = transport + (source ? 0 : 2);
    auto& udp = *reinterpret_cast<packet::UdpHeader*>(transport);
    if (ip.proto == packet::kProtoUdp && udp.checksum != 0) {
      udp.checksum = packet::udp_nonzero(
          packet::update16(packet::update32(udp.checksum, old_address, new_address),
                           packet::load_raw16(port_at), new_port));
    }
    packet::store_raw16(port_at, new_port);
  }
  ip.checksum = packet::update32(ip.checksum, old_address, new_address);
  (source ? ip.src : ip.dst) = new_address;
  // Computed anew over the whole message: errors are rare, and a quote may have any length.
  const auto message = l4_of(frame);
  auto& error = *reinterpret_cast<packet::IcmpHeader*>(message.data());
  error.checksum = 0;
  error.checksum = packet::checksum(message);
}

void set_address(rte_mbuf* frame, End end, Ipv4Address address) {
  auto& ip = ipv4_of(frame);
  const uint32_t before = end == End::source ? ip.src : ip.dst;
  const uint32_t after = packet::swap32(address);
  ip.checksum = packet::update32(ip.checksum, before, after);
  (end == End::source ? ip.src : ip.dst) = after;
}

}  // namespace headrace::vnf
