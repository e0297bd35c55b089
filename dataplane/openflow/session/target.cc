// SPDX-License-Identifier: Apache-2.0
#include "openflow/session/target.h"

#include <asio/ip/address.hpp>
#include <charconv>
#include <vector>

#include "openflow/codec/protocol.h"

namespace headrace::openflow {
namespace {

constexpr size_t kMaxUnixPath = 107;

/// Splits at colons outside brackets; the brackets around an IPv6 address are removed.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts(1);
  bool bracketed = false;
  for (char letter : text) {
    if (letter == '[') {
      bracketed = true;
    } else if (letter == ']') {
      bracketed = false;
    } else if (letter == ':' && !bracketed) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

Result<uint16_t> parse_port(std::string_view text, std::string_view target) {
  if (text.empty()) return kDefaultPort;
  uint16_t port = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (code != std::errc{} || end != text.data() + text.size()) {
    return fail("target {}: {} is not a port number", target, text);
  }
  return port;
}

}  // namespace

Result<Target> parse_target(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::string_view rest = colon == text.npos ? "" : text.substr(colon + 1);
  Target target;
  if (kind == "unix" || kind == "punix") {
    if (rest.empty() || rest.size() > kMaxUnixPath) {
      return fail("target {}: a socket path has 1 to {} octets", text, kMaxUnixPath);
    }
    target.passive = kind == "punix";
    target.is_unix = true;
    target.path = rest;
    return target;
  }
  if (kind != "tcp" && kind != "ptcp" && kind != "ssl" && kind != "pssl") {
    return fail(
        "target {}: expected tcp:IP[:PORT], ssl:IP[:PORT], ptcp:[PORT][:IP], pssl:[PORT][:IP], "
        "unix:PATH or punix:PATH",
        text);
  }
  target.passive = kind.starts_with('p');
  target.is_tls = kind.ends_with("ssl");
  const std::vector<std::string> parts = split(rest);
  if (parts.size() > 2) return fail("target {}: write IPv6 addresses in brackets", text);
  const std::string second = parts.size() > 1 ? parts[1] : "";
  target.address = target.passive ? second : parts[0];
  Result<uint16_t> port = parse_port(target.passive ? parts[0] : second, text);
  if (!port) return tl::unexpected<Error>(port.error());
  target.port = *port;
  if (target.address.empty() && target.passive) return target;
  std::error_code code;
  asio::ip::make_address(target.address, code);
  if (code) return fail("target {}: {} is not an IP address", text, target.address);
  return target;
}

}  // namespace headrace::openflow
