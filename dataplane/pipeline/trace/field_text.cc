// SPDX-License-Identifier: Apache-2.0
#include "pipeline/trace/field_text.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "packet/bytes.h"
#include "packet/headers.h"
#include "pipeline/terms/numbers.h"
#include "pipeline/trace/field_names.h"

namespace headrace::pipeline {
namespace {

using match::Field;

constexpr uint16_t kVlanPresent = 0x1000;

uint64_t number_of(Field field, const uint8_t* value) {
  uint64_t number = 0;
  for (size_t i = 0; i < info(field).bytes; ++i) number = number << 8 | value[i];
  return number;
}

std::string number_text(Field field, uint64_t number) {
  if (kind_of(field) == ValueKind::hex) {
    return field == Field::eth_type ? fmt::format("0x{:04x}", number)
           : number == 0            ? "0"
                                    : fmt::format("{:#x}", number);
  }
  if (field == Field::in_port && number == kPortLocal) return "LOCAL";
  if (field == Field::in_port && number == kPortController) return "CONTROLLER";
  return std::to_string(number);
}

std::string address_text(int family, const uint8_t* value) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(family, value, text.data(), text.size());
  return text.data();
}

/// The length of a mask that is a prefix, or nothing.
std::optional<unsigned> prefix_length(const uint8_t* mask, size_t bytes) {
  unsigned length = 0;
  bool ended = false;
  for (size_t i = 0; i < bytes; ++i) {
    const auto ones = static_cast<unsigned>(std::countl_one(mask[i]));
    if ((ended && mask[i] != 0) || static_cast<uint8_t>(mask[i] << ones) != 0) return std::nullopt;
    ended = ended || ones != 8;
    length += ones;
  }
  return length;
}

bool covers(Field field, const uint8_t* mask) {
  const match::FieldInfo& entry = info(field);
  for (size_t i = 0; i < entry.bytes; ++i) {
    if (mask[i] != match::Match::full_mask_byte(entry, i)) return false;
  }
  return true;
}

std::string shorthand_of(uint16_t eth_type, int ip_proto) {
  const auto* const found =
      std::find_if(kShorthands.begin(), kShorthands.end(), [&](const Shorthand& each) {
        return each.eth_type == eth_type && each.ip_proto == ip_proto;
      });
  return found == kShorthands.end() ? "" : std::string(found->name);
}

std::string vlan_text(const uint8_t* value, const uint8_t* mask) {
  const unsigned vid = packet::load_be16(value);
  const unsigned bits = mask == nullptr ? 0x1fff : packet::load_be16(mask);
  if (bits == 0x1fff && (vid & kVlanPresent) != 0) return fmt::format("dl_vlan={}", vid & 0xfff);
  return fmt::format("vlan_tci=0x{:04x}/0x{:04x}", vid, bits);
}

void append(std::string& text, const std::string& part) {
  if (!text.empty() && !part.empty()) text += ',';
  text += part;
}

}  // namespace

std::string_view field_name(Field field) {
  for (const FieldName& each : kNames) {
    if (each.field == field && !each.name.empty()) return each.name;
  }
  return info(field).name;
}

std::string format_value(Field field, const uint8_t* value) {
  switch (kind_of(field)) {
    case ValueKind::mac:
      return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", value[0], value[1], value[2],
                         value[3], value[4], value[5]);
    case ValueKind::ipv4:
      return address_text(AF_INET, value);
    case ValueKind::ipv6:
      return address_text(AF_INET6, value);
    case ValueKind::number:
    case ValueKind::hex:
      break;
  }
  return number_text(field, number_of(field, value));
}

std::string format_field(Field field, const uint8_t* value, const uint8_t* mask) {
  if (field == Field::vlan_vid) return vlan_text(value, mask);
  if (field == Field::ip_dscp) return fmt::format("nw_tos={}", value[0] << 2);
  std::string text = fmt::format("{}={}", field_name(field), format_value(field, value));
  if (mask == nullptr || covers(field, mask)) return text;
  const ValueKind kind = kind_of(field);
  if (kind == ValueKind::ipv4 || kind == ValueKind::ipv6) {
    if (const auto length = prefix_length(mask, info(field).bytes)) {
      return text + fmt::format("/{}", *length);
    }
  }
  if (kind == ValueKind::number || kind == ValueKind::hex) {
    return fmt::format("{}={:#x}/{:#x}", field_name(field), number_of(field, value),
                       number_of(field, mask));
  }
  return text + "/" + format_value(field, mask);
}

std::string format_match(const match::Match& match) {
  int eth_type = -1;
  int ip_proto = -1;
  for (const match::MatchField& each : match.fields) {
    if (each.field == Field::eth_type) eth_type = packet::load_be16(each.value.data());
    if (each.field == Field::ip_proto) ip_proto = each.value[0];
  }
  std::string text;
  bool names_type = false;
  bool names_proto = false;
  if (eth_type >= 0) {
    std::string name = ip_proto < 0 ? "" : shorthand_of(static_cast<uint16_t>(eth_type), ip_proto);
    names_proto = !name.empty();
    if (name.empty()) name = shorthand_of(static_cast<uint16_t>(eth_type), -1);
    names_type = !name.empty();
    text = name;
  }
  for (const match::MatchField& each : match.fields) {
    if (each.field == Field::eth_type && names_type) continue;
    if (each.field == Field::ip_proto && names_proto) continue;
    append(text, format_field(each.field, each.value.data(), each.mask.data()));
  }
  return text;
}

std::string format_packet(const match::FlowKey& key, const packet::ParsedPacket& parsed,
                          const rte_mbuf* packet) {
  const auto* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
  std::string text;
  const auto add = [&](Field field) {
    std::array<uint8_t, 16> value{};
    load(key, field, value.data());
    append(text, format_field(field, value.data(), nullptr));
  };
  const auto add_unless_zero = [&](Field field) {
    std::array<uint8_t, 16> value{};
    load(key, field, value.data());
    if (value != std::array<uint8_t, 16>{}) add(field);
  };
  const uint16_t type = __builtin_bswap16(key.eth_type);
  const bool ip = parsed.has(packet::kIpv4 | packet::kIpv6);
  std::string name = ip ? shorthand_of(type, key.ip_proto) : "";
  const bool names_proto = !name.empty();
  if (name.empty()) name = shorthand_of(type, -1);
  text = name;
  for (const Field field : {Field::tunnel_id, Field::tun_src, Field::tun_dst, Field::tun_ipv6_src,
                            Field::tun_ipv6_dst, Field::metadata}) {
    add_unless_zero(field);
  }
  add(Field::in_port);
  if (key.vlan_vid == 0) {
    append(text, "vlan_tci=0x0000");
  } else {
    add(Field::vlan_vid);
    add(Field::vlan_pcp);
  }
  add(Field::eth_src);
  add(Field::eth_dst);
  if (name.empty()) add(Field::eth_type);
  if (parsed.has(packet::kMpls)) {
    for (const Field field : {Field::mpls_label, Field::mpls_tc, Field::mpls_bos}) add(field);
  }
  if (parsed.has(packet::kPbb)) add(Field::pbb_isid);
  if (parsed.has(packet::kArp)) {
    for (const Field field :
         {Field::arp_spa, Field::arp_tpa, Field::arp_op, Field::arp_sha, Field::arp_tha}) {
      add(field);
    }
  }
  if (!ip) return text;
  const bool four = parsed.has(packet::kIpv4);
  for (const Field field : four ? std::array{Field::ipv4_src, Field::ipv4_dst}
                                : std::array{Field::ipv6_src, Field::ipv6_dst}) {
    add(field);
  }
  if (!four) add(Field::ipv6_flabel);
  if (!names_proto) add(Field::ip_proto);
  add(Field::ip_dscp);
  add(Field::ip_ecn);
  const size_t ttl_at = parsed.l3 + (four ? offsetof(packet::Ipv4Header, ttl)
                                          : offsetof(packet::Ipv6Header, hop_limit));
  append(text, fmt::format("nw_ttl={}", frame[ttl_at]));
  if (parsed.has(packet::kFragment)) {
    append(text, parsed.has(packet::kLaterFragment) ? "nw_frag=later" : "nw_frag=first");
  }
  if (parsed.l4 == 0) return text;
  switch (key.ip_proto) {
    case 6:
      add(Field::tcp_src);
      add(Field::tcp_dst);
      add(Field::tcp_flags);
      break;
    case 17:
      add(Field::udp_src);
      add(Field::udp_dst);
      break;
    case 132:
      add(Field::sctp_src);
      add(Field::sctp_dst);
      break;
    case 1:
      add(Field::icmpv4_type);
      add(Field::icmpv4_code);
      break;
    case 58:
      add(Field::icmpv6_type);
      add(Field::icmpv6_code);
      add_unless_zero(Field::ipv6_nd_target);
      add_unless_zero(Field::ipv6_nd_sll);
      add_unless_zero(Field::ipv6_nd_tll);
      break;
    default:
      break;
  }
  return text;
}

}  // namespace headrace::pipeline
