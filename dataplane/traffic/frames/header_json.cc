// SPDX-License-Identifier: Apache-2.0
// Header stacks in JSON: names and defaults.
#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "packet/mac_address.h"
#include "traffic/frames/header_stack.h"
#include "traffic/frames/params.h"

namespace headrace::traffic {

namespace {

using Kind = LayerKind;

constexpr std::array<std::pair<std::string_view, Kind>, 12> kNames{{{"ethernet", Kind::ethernet},
                                                                    {"vlan", Kind::vlan},
                                                                    {"mpls", Kind::mpls},
                                                                    {"pppoe", Kind::pppoe},
                                                                    {"ipv4", Kind::ipv4},
                                                                    {"ipv6", Kind::ipv6},
                                                                    {"gre", Kind::gre},
                                                                    {"vxlan", Kind::vxlan},
                                                                    {"gtpu", Kind::gtpu},
                                                                    {"udp", Kind::udp},
                                                                    {"tcp", Kind::tcp},
                                                                    {"arp", Kind::arp}}};

void read_mac(ParamReader& reader, const char* key, std::array<uint8_t, 6>& out) {
  std::string text;
  if (!reader.optional(key, text)) return;
  if (const auto mac = packet::parse_mac(text)) {
    out = *mac;
  } else {
    reader.reject(key, "'{}' is not a MAC address", text);
  }
}

void read_ip(ParamReader& reader, const char* key, int family, std::array<uint8_t, 16>& out) {
  std::string text;
  if (!reader.optional(key, text)) return;
  if (const auto address = parse_ip(family, text)) {
    out = *address;
  } else {
    reader.reject(key, "'{}' is not an IPv{} address", text, family == AF_INET ? 4 : 6);
  }
}

void read_number(ParamReader& reader, const char* key, uint32_t largest,
                 std::optional<uint32_t>& out) {
  uint32_t value = 0;
  if (!reader.optional(key, value)) return;
  if (value > largest) reader.reject(key, "must be at most {}", largest);
  out = value;
}

void read_byte(ParamReader& reader, const char* key, uint32_t largest, uint8_t& out) {
  std::optional<uint32_t> value;
  read_number(reader, key, largest, value);
  if (value) out = static_cast<uint8_t>(*value);
}

void read_port(ParamReader& reader, const char* key, std::optional<uint16_t>& out) {
  uint16_t value = 0;
  if (reader.optional(key, value)) out = value;
}

void read_layer(ParamReader& reader, Layer& layer) {
  const int family = layer.kind == Kind::ipv6 ? AF_INET6 : AF_INET;
  switch (layer.kind) {
    case Kind::ethernet:
      read_mac(reader, "src", layer.src_mac);
      read_mac(reader, "dst", layer.dst_mac);
      break;
    case Kind::vlan:
      read_number(reader, "vid", 4095, layer.id);
      read_byte(reader, "pcp", 7, layer.priority);
      break;
    case Kind::mpls:
      read_number(reader, "label", (1 << 20) - 1, layer.id);
      read_byte(reader, "tc", 7, layer.priority);
      read_byte(reader, "ttl", 255, layer.ttl);
      break;
    case Kind::pppoe:
      read_number(reader, "session", 0xffff, layer.id);
      break;
    case Kind::ipv4:
    case Kind::ipv6:
      read_ip(reader, "src", family, layer.src_ip);
      read_ip(reader, "dst", family, layer.dst_ip);
      read_byte(reader, "dscp", 63, layer.priority);
      read_byte(reader, "ttl", 255, layer.ttl);
      break;
    case Kind::gre:
      read_number(reader, "key", 0xffffffff, layer.id);
      break;
    case Kind::vxlan:
      read_number(reader, "vni", (1 << 24) - 1, layer.id);
      break;
    case Kind::gtpu:
      read_number(reader, "teid", 0xffffffff, layer.id);
      break;
    case Kind::udp:
    case Kind::tcp:
      read_port(reader, "src", layer.src_port);
      read_port(reader, "dst", layer.dst_port);
      break;
    case Kind::arp:
      read_mac(reader, "src_mac", layer.src_mac);
      read_ip(reader, "src", family, layer.src_ip);
      read_ip(reader, "dst", family, layer.dst_ip);
      break;
  }
}

}  // namespace

std::string_view to_string(LayerKind kind) {
  return std::find_if(kNames.begin(), kNames.end(),
                      [kind](const auto& n) { return n.second == kind; })
      ->first;
}

std::optional<LayerKind> layer_kind(std::string_view name) {
  const auto found =
      std::find_if(kNames.begin(), kNames.end(), [name](const auto& n) { return n.first == name; });
  if (found == kNames.end()) return std::nullopt;
  return found->second;
}

std::optional<std::array<uint8_t, 16>> parse_ip(int family, const std::string& text) {
  std::array<uint8_t, 16> address{};
  if (inet_pton(family, text.c_str(), address.data()) != 1) return std::nullopt;
  return address;
}

Layer default_layer(LayerKind kind) {
  Layer layer{.kind = kind};
  if (kind == Kind::ipv6) {
    layer.src_ip = *parse_ip(AF_INET6, "2001:2::1");
    layer.dst_ip = *parse_ip(AF_INET6, "2001:2:0:1::1");
  } else {
    layer.src_ip = *parse_ip(AF_INET, "198.18.0.1");
    layer.dst_ip = *parse_ip(AF_INET, "198.19.0.1");
  }
  return layer;
}

Result<HeaderStack> HeaderStack::from_json(const nlohmann::json& layers, const std::string& path) {
  if (!layers.is_array()) return fail_as("bad_params", "{}: must be a list of layers", path);
  std::vector<Layer> stack;
  for (size_t i = 0; i < layers.size(); ++i) {
    const nlohmann::json& entry = layers[i];
    const std::string where = fmt::format("{}/{}", path, i);
    if (!entry.is_string() && !(entry.is_object() && entry.size() == 1)) {
      return fail_as("bad_params", "{}: write \"name\" or {{\"name\": {{...}}}}", where);
    }
    const std::string name = entry.is_string() ? entry.get<std::string>() : entry.begin().key();
    const auto kind = layer_kind(name);
    if (!kind) return fail_as("bad_params", "{}: '{}' is not a known layer", where, name);
    stack.push_back(default_layer(*kind));
    if (entry.is_object()) {
      ParamReader reader(*entry.begin(), where + "/" + name);
      read_layer(reader, stack.back());
      if (auto read = reader.finish(); !read) return tl::unexpected(read.error());
    }
  }
  auto made = make(std::move(stack));
  if (!made) return fail_as("bad_params", "{}: {}", path, made.error().message);
  return made;
}

}  // namespace headrace::traffic
