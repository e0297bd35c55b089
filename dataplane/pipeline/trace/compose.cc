// SPDX-License-Identifier: Apache-2.0
// First the headers that the types ask for, all zero, with right checksums; then each field is set
// as set_field does it, which keeps checksums right.
#include "pipeline/trace/compose.h"

#include <rte_mbuf.h>

#include <cstring>
#include <vector>

#include "match/fields/extract.h"
#include "match/fields/set_field.h"
#include "packet/bytes.h"
#include "packet/checksum.h"
#include "packet/headers.h"
#include "pipeline/trace/field_text.h"

namespace headrace::pipeline {
namespace {

using match::Field;
using Bytes = std::vector<uint8_t>;

constexpr uint8_t kDefaultTtl = 64;
constexpr uint8_t kIcmpv6 = 58;

void put16(Bytes& bytes, size_t at, uint16_t value) {
  bytes[at] = static_cast<uint8_t>(value >> 8);
  bytes[at + 1] = static_cast<uint8_t>(value);
}

/// Puts in the checksum of an L4 packet whose addresses are all zero: of the pseudo-header then
/// only protocol and length count.
void put_checksum(Bytes& l4, size_t at, uint8_t proto, bool pseudo) {
  Bytes summed = l4;
  if (pseudo) {
    summed.resize(summed.size() + (summed.size() & 1));
    summed.insert(summed.end(), {0, proto, 0, static_cast<uint8_t>(l4.size())});
  }
  const uint16_t sum = packet::checksum(summed);
  std::memcpy(l4.data() + at, &sum, sizeof sum);
}

Bytes make_l4(const FlowText& flow, uint8_t proto, bool ipv6) {
  Bytes l4;
  switch (proto) {
    case packet::kProtoTcp:
      l4.resize(sizeof(packet::TcpHeader));
      l4[offsetof(packet::TcpHeader, offset_flags)] = 0x50;
      if (flow.has(Field::tcp_flags)) {
        const uint16_t flags = __builtin_bswap16(flow.fields.value.tcp_flags);
        put16(l4, offsetof(packet::TcpHeader, offset_flags),
              static_cast<uint16_t>(0x5000 | (flags & 0xfff)));
      }
      put_checksum(l4, offsetof(packet::TcpHeader, checksum), proto, true);
      break;
    case packet::kProtoUdp:
      l4.resize(sizeof(packet::UdpHeader));
      put16(l4, offsetof(packet::UdpHeader, length), sizeof(packet::UdpHeader));
      put_checksum(l4, offsetof(packet::UdpHeader, checksum), proto, true);
      break;
    case packet::kProtoSctp:
      l4.resize(sizeof(packet::SctpHeader));
      break;
    case packet::kProtoIcmp:
      l4.resize(8);
      put_checksum(l4, offsetof(packet::IcmpHeader, checksum), proto, ipv6);
      break;
    case kIcmpv6: {
      l4.resize(8);
      const uint8_t type = flow.has(Field::icmpv6_type) ? flow.fields.value.icmp_type : uint8_t{0};
      if (type == packet::kIcmpv6NeighborSolicitation ||
          type == packet::kIcmpv6NeighborAdvertisement) {
        l4.resize(sizeof(packet::NeighborDiscovery));
        const auto option = [&l4](uint8_t number) {
          l4.insert(l4.end(), {number, 1, 0, 0, 0, 0, 0, 0});
        };
        if (flow.has(Field::ipv6_nd_sll)) option(1);
        if (flow.has(Field::ipv6_nd_tll)) option(2);
      }
      l4[0] = type;
      put_checksum(l4, offsetof(packet::IcmpHeader, checksum), proto, true);
      break;
    }
    default:
      break;
  }
  return l4;
}

Bytes make_ipv4(const FlowText& flow) {
  const uint8_t proto = flow.fields.value.ip_proto;
  const Bytes l4 = make_l4(flow, proto, false);
  Bytes ip(sizeof(packet::Ipv4Header));
  ip[0] = 0x45;
  put16(ip, offsetof(packet::Ipv4Header, total_length),
        static_cast<uint16_t>(ip.size() + l4.size()));
  ip[offsetof(packet::Ipv4Header, ttl)] = flow.ttl.value_or(kDefaultTtl);
  ip[offsetof(packet::Ipv4Header, proto)] = proto;
  const uint16_t sum = packet::checksum(ip);
  std::memcpy(ip.data() + offsetof(packet::Ipv4Header, checksum), &sum, sizeof sum);
  ip.insert(ip.end(), l4.begin(), l4.end());
  return ip;
}

Bytes make_ipv6(const FlowText& flow) {
  const uint8_t proto = flow.has(Field::ip_proto) ? flow.fields.value.ip_proto : uint8_t{59};
  const Bytes l4 = make_l4(flow, proto, true);
  Bytes ip(sizeof(packet::Ipv6Header));
  ip[0] = 0x60;
  put16(ip, offsetof(packet::Ipv6Header, payload_length), static_cast<uint16_t>(l4.size()));
  ip[offsetof(packet::Ipv6Header, next_header)] = proto;
  ip[offsetof(packet::Ipv6Header, hop_limit)] = flow.ttl.value_or(kDefaultTtl);
  ip.insert(ip.end(), l4.begin(), l4.end());
  return ip;
}

Bytes make_arp() {
  Bytes arp(sizeof(packet::ArpHeader));
  put16(arp, offsetof(packet::ArpHeader, hardware_type), 1);
  put16(arp, offsetof(packet::ArpHeader, protocol_type), 0x0800);
  arp[offsetof(packet::ArpHeader, hardware_length)] = 6;
  arp[offsetof(packet::ArpHeader, protocol_length)] = 4;
  return arp;
}

Bytes make_frame(const FlowText& flow) {
  Bytes frame(2 * sizeof(packet::EthernetHeader::dst));
  const auto append16 = [&frame](uint16_t value) {
    frame.push_back(static_cast<uint8_t>(value >> 8));
    frame.push_back(static_cast<uint8_t>(value));
  };
  if (flow.has(Field::vlan_vid) && flow.fields.value.vlan_vid != 0) {
    append16(0x8100);
    append16(0);
  }
  const uint16_t type = __builtin_bswap16(flow.fields.value.eth_type);
  append16(type);
  Bytes payload;
  switch (type) {
    case 0x0800:
      payload = make_ipv4(flow);
      break;
    case 0x86dd:
      payload = make_ipv6(flow);
      break;
    case 0x0806:
    case 0x8035:
      payload = make_arp();
      break;
    case 0x8847:
    case 0x8848:
      payload = {0, 0, 1, kDefaultTtl};  // the last of the stack, unless mpls_bos says otherwise
      break;
    default:
      break;
  }
  frame.insert(frame.end(), payload.begin(), payload.end());
  constexpr size_t kLeast = 60;
  if (frame.size() < kLeast) frame.resize(kLeast);
  return frame;
}

/// Fields that decide which headers there are, and those that are beside the packet.
bool is_set_otherwise(Field field) {
  switch (field) {
    case Field::in_port:
    case Field::in_phy_port:
    case Field::metadata:
    case Field::tunnel_id:
    case Field::tun_src:
    case Field::tun_dst:
    case Field::tun_ipv6_src:
    case Field::tun_ipv6_dst:
    case Field::eth_type:
    case Field::ip_proto:
    case Field::tcp_flags:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<> compose(const FlowText& flow, rte_mbuf* packet) {
  const Bytes frame = make_frame(flow);
  auto* data =
      reinterpret_cast<uint8_t*>(rte_pktmbuf_append(packet, static_cast<uint16_t>(frame.size())));
  if (data == nullptr) return fail("no room in a buffer for {} octets", frame.size());
  std::memcpy(data, frame.data(), frame.size());
  match::FlowKey key;
  packet::ParsedPacket parsed;
  match::refresh(packet::Depth::full, packet, key, parsed);
  for (const match::MatchField& each : flow.fields.fields) {
    const bool absent = each.field == Field::vlan_vid && flow.fields.value.vlan_vid == 0;
    if (!is_set_otherwise(each.field) && !absent) {
      const bool settable = info(each.field).settable;
      if (!settable || !match::set_field_for(each.field)(packet, parsed, key, each.value.data())) {
        return fail("prerequisites not met for setting {}", field_name(each.field));
      }
      match::refresh(packet::Depth::full, packet, key, parsed);
    }
  }
  // A field that no header holds was set nowhere.
  for (const match::MatchField& each : flow.fields.fields) {
    if (is_set_otherwise(each.field) && each.field != Field::ip_proto &&
        each.field != Field::tcp_flags) {
      continue;
    }
    std::array<uint8_t, 16> value{};
    load(key, each.field, value.data());
    if (value != each.value) {
      return fail("prerequisites not met for setting {}", field_name(each.field));
    }
  }
  return {};
}

}  // namespace headrace::pipeline
