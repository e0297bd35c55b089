// SPDX-License-Identifier: Apache-2.0
#include "port/tunnel_options.h"

#include <arpa/inet.h>

#include <charconv>

#include "packet/mac_address.h"
#include "port/options.h"

namespace headrace::port {
namespace {

constexpr std::string_view kFlow = "flow";
const std::string kCommonKey = "key";

std::optional<packet::TunnelKind> kind_of(std::string_view type) {
  if (type == "vxlan") return packet::TunnelKind::vxlan;
  if (type == "gre") return packet::TunnelKind::gre;
  if (type == "gtpu") return packet::TunnelKind::gtpu;
  return std::nullopt;
}

/// A key: nothing for `flow`; `given` says whether the option was there.
Result<std::optional<uint32_t>> read_key(const PortConfig& config, Options& options,
                                         packet::TunnelKind kind, const std::string& name,
                                         bool& given) {
  std::optional<std::string> text = options.text(name);
  const std::optional<std::string> common = options.text(kCommonKey);
  const std::string& said = text ? name : kCommonKey;
  if (!text) text = common;
  given = text.has_value();
  if (!text) return std::optional<uint32_t>(0);
  if (*text == kFlow) return std::optional<uint32_t>();
  uint64_t number = 0;
  const bool hex = text->starts_with("0x");
  const char* begin = text->data() + (hex ? 2 : 0);
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(begin, end, number, hex ? 16 : 10);
  if (error != std::errc{} || stop != end || number > packet::largest_id(kind)) {
    return fail("{}: options:{} is '{}': it must be `flow` or a number to {}", config.name, said,
                *text, packet::largest_id(kind));
  }
  return std::optional<uint32_t>(static_cast<uint32_t>(number));
}

/// An address, or nothing for `flow` where that may be.
Result<std::optional<IpAddress>> read_ip(const PortConfig& config, const std::string& name,
                                         const std::string& text, bool may_flow) {
  if (may_flow && text == kFlow) return std::optional<IpAddress>();
  const std::optional<IpAddress> address = parse_ip(text);
  if (!address) {
    return fail("{}: options:{} is '{}': it must be an IP address{}", config.name, name, text,
                may_flow ? " or `flow`" : "");
  }
  return address;
}

Result<> read_addresses(const PortConfig& config, Options& options, TunnelOptions& read) {
  const Result<std::string> remote = options.required("remote_ip");
  if (!remote) return tl::unexpected(remote.error());
  Result<std::optional<IpAddress>> address = read_ip(config, "remote_ip", *remote, true);
  if (!address) return tl::unexpected(address.error());
  read.remote = *address;
  if (read.remote && read.remote->is_multicast()) {
    return fail("{}: options:remote_ip is '{}': a multicast address can't be a tunnel's far end",
                config.name, *remote);
  }
  if (const std::optional<std::string> local = options.text("local_ip")) {
    address = read_ip(config, "local_ip", *local, true);
    if (!address) return tl::unexpected(address.error());
    read.local = *address;
    read.local_from_flow = !read.local;
  }
  if (const std::optional<std::string> gateway = options.text("gateway")) {
    address = read_ip(config, "gateway", *gateway, false);
    if (!address) return tl::unexpected(address.error());
    read.gateway = *address;
  }
  if (const std::optional<std::string> text = options.text("remote_mac")) {
    read.remote_mac = packet::parse_mac(*text);
    if (!read.remote_mac) {
      return fail("{}: options:remote_mac is '{}': write xx:xx:xx:xx:xx:xx", config.name, *text);
    }
  }
  read.underlay = options.text("underlay").value_or("");
  if (read.local && read.remote && read.local->ipv6 != read.remote->ipv6) {
    return fail("{}: options:local_ip and remote_ip are of different IP versions", config.name);
  }
  if (read.gateway && !read.may_be(read.gateway->ipv6)) {
    return fail("{}: options:gateway is not of the IP version of the tunnel", config.name);
  }
  return {};
}

/// A number, or `inherit`.
Result<> read_inheritable(Options& options, const std::string& name, uint8_t& value, bool& inherit,
                          uint32_t low) {
  const std::optional<std::string> text = options.text(name);
  inherit = text == "inherit";
  if (inherit) return {};
  const Result<uint32_t> number = options.number(name, value, low, 255);
  if (!number) return tl::unexpected(number.error());
  value = static_cast<uint8_t>(*number);
  return {};
}

}  // namespace

bool is_tunnel_type(std::string_view type) {
  return kind_of(type).has_value();
}

std::optional<IpAddress> parse_ip(const std::string& text) {
  IpAddress address;
  if (inet_pton(AF_INET, text.c_str(), address.octets.data()) == 1) return address;
  address.ipv6 = true;
  if (inet_pton(AF_INET6, text.c_str(), address.octets.data()) == 1) return address;
  return std::nullopt;
}

std::string format(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(address.ipv6 ? AF_INET6 : AF_INET, address.octets.data(), text, sizeof text);
  return text;
}

Result<TunnelOptions> read_tunnel_options(const PortConfig& config) {
  TunnelOptions read;
  Options options(config);
  const std::optional<packet::TunnelKind> kind = kind_of(config.type);
  if (!kind) return fail("{}: '{}' is no type of tunnel", config.name, config.type);
  packet::TunnelSpec& spec = read.spec;
  spec.kind = *kind;
  if (Result<> done = read_addresses(config, options, read); !done) {
    return tl::unexpected(done.error());
  }
  bool in_given = false;
  bool out_given = false;
  auto key = read_key(config, options, *kind, "in_key", in_given);
  if (!key) return tl::unexpected(key.error());
  read.in_key = *key;
  key = read_key(config, options, *kind, "out_key", out_given);
  if (!key) return tl::unexpected(key.error());
  read.out_key = *key;
  // GRE without a key option neither sends nor expects the key field.
  spec.has_key = out_given;
  read.has_in_key = in_given || *kind != packet::TunnelKind::gre;
  spec.id = read.out_key.value_or(0);

  if (*kind != packet::TunnelKind::gre) {
    const Result<uint32_t> port = options.number("dst_port", packet::default_port(*kind), 1, 65535);
    if (!port) return tl::unexpected(port.error());
    spec.dst_port = static_cast<uint16_t>(*port);
  } else {
    const std::string type = options.text("packet_type").value_or("legacy_l2");
    if (type != "legacy_l2" && type != "legacy_l3") {
      return fail("{}: options:packet_type is '{}': it must be legacy_l2 or legacy_l3", config.name,
                  type);
    }
    spec.layer3 = type == "legacy_l3";
  }
  if (Result<> done = read_inheritable(options, "tos", spec.tos, spec.inherit_tos, 0); !done) {
    return tl::unexpected(done.error());
  }
  if (Result<> done = read_inheritable(options, "ttl", spec.ttl, spec.inherit_ttl, 1); !done) {
    return tl::unexpected(done.error());
  }
  const Result<bool> checksum = options.flag("csum", false);
  if (!checksum) return tl::unexpected(checksum.error());
  spec.checksum = *checksum;
  const Result<bool> dont_fragment = options.flag("df_default", true);
  if (!dont_fragment) return tl::unexpected(dont_fragment.error());
  spec.dont_fragment = *dont_fragment;
  if (Result<> done = options.finish(); !done) return tl::unexpected(done.error());
  return read;
}

}  // namespace headrace::port
