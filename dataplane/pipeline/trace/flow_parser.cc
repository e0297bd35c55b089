// SPDX-License-Identifier: Apache-2.0
#include "pipeline/trace/flow_parser.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "pipeline/terms/numbers.h"
#include "pipeline/trace/field_names.h"
#include "pipeline/trace/field_text.h"

namespace headrace::pipeline {
namespace {

using match::Field;

constexpr uint16_t kVlanPresent = 0x1000;

Result<std::array<uint8_t, 16>> number_value(Field field, std::string_view text,
                                             const PortResolver& ports) {
  std::optional<uint64_t> number;
  const std::string copy(text);
  char* end = nullptr;
  errno = 0;
  const uint64_t parsed = std::strtoull(copy.c_str(), &end, 0);
  if (!copy.empty() && *end == '\0' && errno == 0 && copy[0] != '-') {
    number = parsed;
  } else if (field == Field::in_port) {
    if (text == "LOCAL" || text == "local") number = kPortLocal;
    if (!number) number = ports(text);
  }
  if (!number) return fail("{}: invalid value for {}", text, field_name(field));
  const match::FieldInfo& entry = info(field);
  if (entry.bits < 64 && *number >> entry.bits != 0) {
    return fail("{}: value too large for {}-bit field {}", text, entry.bits, field_name(field));
  }
  std::array<uint8_t, 16> value{};
  for (size_t i = 0; i < entry.bytes; ++i) {
    value[i] = static_cast<uint8_t>(*number >> 8 * (entry.bytes - 1 - i));
  }
  return value;
}

Result<std::array<uint8_t, 16>> parse_value(Field field, std::string_view text,
                                            const PortResolver& ports) {
  if (text.find('/') != std::string_view::npos) {
    return fail("{}: a packet has one value; give {} without a mask", text, field_name(field));
  }
  const std::string copy(text);
  std::array<uint8_t, 16> value{};
  switch (kind_of(field)) {
    case ValueKind::mac: {
      std::array<unsigned, 6> octets{};
      int end = 0;
      if (std::sscanf(copy.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%n", &octets[0], &octets[1], &octets[2],
                      &octets[3], &octets[4], &octets[5], &end) != 6 ||
          static_cast<size_t>(end) != copy.size()) {
        return fail("{}: invalid Ethernet address", text);
      }
      std::copy(octets.begin(), octets.end(), value.begin());
      return value;
    }
    case ValueKind::ipv4:
      if (::inet_pton(AF_INET, copy.c_str(), value.data()) == 1) return value;
      return fail("{}: invalid IP address", text);
    case ValueKind::ipv6:
      if (::inet_pton(AF_INET6, copy.c_str(), value.data()) == 1) return value;
      return fail("{}: invalid IPv6 address", text);
    case ValueKind::number:
    case ValueKind::hex:
      break;
  }
  return number_value(field, text, ports);
}

/// Collects fields; the protocol decides which field tp_src and icmp_type are.
class FlowParser {
 public:
  explicit FlowParser(const PortResolver& ports) : ports_(ports) {}

  Result<> take(std::string_view name, std::optional<std::string_view> value) {
    if (!value) return take_shorthand(name);
    if (name == "dl_vlan") return take_vlan(*value);
    if (name == "vlan_tci") return take_tci(*value);
    if (name == "nw_tos" || name == "ip_dscp") return take_dscp(name, *value);
    if (name == "nw_ttl") return take_ttl(*value);
    const std::optional<Field> field = find(name);
    if (!field) return fail("unknown field {}", name);
    const auto parsed = parse_value(*field, *value, ports_);
    if (!parsed) return tl::unexpected(parsed.error());
    if (*field == Field::vlan_pcp && !flow_.has(Field::vlan_vid))
      add_number(Field::vlan_vid, 0x1000);
    return add(*field, parsed->data());
  }

  [[nodiscard]] FlowText flow() const { return flow_; }

 private:
  [[nodiscard]] int proto() const {
    return flow_.has(Field::ip_proto) ? flow_.fields.value.ip_proto : -1;
  }

  [[nodiscard]] std::optional<Field> find(std::string_view name) const {
    std::optional<Field> first;
    const auto fits = [this](Field field) {
      switch (field) {
        case Field::tcp_src:
        case Field::tcp_dst:
          return proto() == 6;
        case Field::udp_src:
        case Field::udp_dst:
          return proto() == 17;
        case Field::sctp_src:
        case Field::sctp_dst:
          return proto() == 132;
        case Field::icmpv4_type:
        case Field::icmpv4_code:
          return proto() == 1;
        case Field::icmpv6_type:
        case Field::icmpv6_code:
          return proto() == 58;
        default:
          return true;
      }
    };
    for (const FieldName& each : kNames) {
      if (each.name != name) continue;
      if (fits(each.field)) return each.field;
      if (!first) first = each.field;
    }
    for (const match::FieldInfo& each : match::detail::kFields) {
      if (each.name == name) return each.field;
    }
    return first;
  }

  Result<> add(Field field, const uint8_t* value) {
    if (flow_.has(field)) return fail("field {} set multiple times", field_name(field));
    flow_.fields.add(field, value);
    return {};
  }
  Result<> add_number(Field field, uint64_t number) {
    std::array<uint8_t, match::kMaxFieldBytes> value{};
    const size_t bytes = info(field).bytes;
    for (size_t i = 0; i < std::min(bytes, sizeof(number)); ++i)
      value[bytes - 1 - i] = static_cast<uint8_t>(number >> 8 * i);
    return add(field, value.data());
  }

  Result<> take_shorthand(std::string_view name) {
    if (name == "eth") return {};
    const auto* const found =
        std::find_if(kShorthands.begin(), kShorthands.end(),
                     [name](const Shorthand& each) { return each.name == name; });
    if (found == kShorthands.end()) return fail("field {} missing value", name);
    if (Result<> added = add_number(Field::eth_type, found->eth_type); !added) return added;
    if (found->ip_proto < 0) return {};
    return add_number(Field::ip_proto, static_cast<uint64_t>(found->ip_proto));
  }

  Result<uint64_t> number(std::string_view name, std::string_view text, uint64_t limit) {
    const std::string copy(text);
    char* end = nullptr;
    errno = 0;
    const uint64_t parsed = std::strtoull(copy.c_str(), &end, 0);
    if (copy.empty() || *end != '\0' || errno != 0 || parsed > limit) {
      return fail("{}: invalid value for {}", text, name);
    }
    return parsed;
  }

  Result<> take_vlan(std::string_view text) {
    const Result<uint64_t> vid = number("dl_vlan", text, 0xfff);
    if (!vid) return tl::unexpected(vid.error());
    return add_number(Field::vlan_vid, *vid | kVlanPresent);
  }
  /// The whole tag; 0: none.
  Result<> take_tci(std::string_view text) {
    const Result<uint64_t> tci = number("vlan_tci", text, 0xffff);
    if (!tci) return tl::unexpected(tci.error());
    if ((*tci & kVlanPresent) == 0) return add_number(Field::vlan_vid, 0);
    if (Result<> added = add_number(Field::vlan_vid, *tci & 0x1fff); !added) return added;
    return add_number(Field::vlan_pcp, *tci >> 13);
  }
  Result<> take_dscp(std::string_view name, std::string_view text) {
    const bool whole = name == "nw_tos";
    const Result<uint64_t> value = number(name, text, whole ? 0xfc : 0x3f);
    if (!value) return tl::unexpected(value.error());
    return add_number(Field::ip_dscp, whole ? *value >> 2 : *value);
  }
  Result<> take_ttl(std::string_view text) {
    const Result<uint64_t> value = number("nw_ttl", text, 0xff);
    if (!value) return tl::unexpected(value.error());
    flow_.ttl = static_cast<uint8_t>(*value);
    return {};
  }

  const PortResolver& ports_;
  FlowText flow_;
};

/// The names whose meaning depends on others come last.
bool depends_on_protocol(std::string_view word) {
  return word.starts_with("tp_") || word.starts_with("icmp_");
}

}  // namespace

bool FlowText::has(Field field) const {
  return std::any_of(fields.fields.begin(), fields.fields.end(),
                     [field](const match::MatchField& each) { return each.field == field; });
}

Result<FlowText> parse_flow(std::string_view text, const PortResolver& ports) {
  std::vector<std::string_view> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of(", \t\n", begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::stable_partition(words.begin(), words.end(),
                        [](std::string_view word) { return !depends_on_protocol(word); });
  FlowParser parser(ports);
  for (const std::string_view word : words) {
    const size_t equals = word.find('=');
    const Result<> taken = equals == std::string_view::npos
                               ? parser.take(word, std::nullopt)
                               : parser.take(word.substr(0, equals), word.substr(equals + 1));
    if (!taken) return fail("Bad openflow flow syntax: {}: {}", text, taken.error().message);
  }
  return parser.flow();
}

}  // namespace headrace::pipeline
