// SPDX-License-Identifier: Apache-2.0
// The headers of a generated packet: a list of layers from the outermost in, and their bytes.
//
// A stack is written as JSON, e.g. ["ethernet", {"vlan": {"vid": 7}}, "ipv4", "udp"], or
// ["ethernet", "ipv4", "udp", {"vxlan": {"vni": 42}}, "ethernet", "ipv6", "tcp"]. Types and
// protocol numbers follow from the next layer, lengths from the frame's size; checksums are
// computed last:
// * IPv4 header checksums are always correct.
// * UDP over IPv4, and UDP that carries a tunnel, have checksum 0 (RFC 768, RFC 6935), which need
// not be updated for each packet's signature. UDP over IPv6 and TCP have correct ones.
//
// Thread safety: values.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace headrace::traffic {

enum class LayerKind : uint8_t {
  ethernet,
  vlan,
  mpls,
  pppoe,  ///< PPPoE session with PPP (RFC 2516)
  ipv4,
  ipv6,
  gre,    ///< RFC 2784, with key (RFC 2890) if set
  vxlan,  ///< RFC 7348; after udp
  gtpu,   ///< 3GPP TS 29.281 G-PDU; after udp
  udp,
  tcp,
  arp,
};

/// One layer; each kind uses only its own members.
struct Layer {
  LayerKind kind;
  std::array<uint8_t, 6> src_mac{0x02, 0, 0, 0, 0, 0x01};
  std::array<uint8_t, 6> dst_mac{0x02, 0, 0, 0, 0, 0x02};
  std::array<uint8_t, 16> src_ip{};  ///< IPv4: the first four bytes
  std::array<uint8_t, 16> dst_ip{};
  std::optional<uint16_t> src_port;
  std::optional<uint16_t> dst_port;
  std::optional<uint32_t> id;  ///< VLAN id, MPLS label, VNI, TEID, GRE key, PPPoE session
  uint8_t priority{0};         ///< PCP, MPLS traffic class, DSCP
  uint8_t ttl{64};
};

/// The place of a field that flows may differ in: `bits` bits, `shift` bits above the end of the
/// `bytes` big-endian bytes at `offset`.
struct Field {
  std::string name;
  uint16_t offset;
  uint8_t bytes;
  uint8_t bits;
  uint8_t shift;

  [[nodiscard]] uint64_t values() const { return uint64_t{1} << bits; }
  /// Adds `amount` to the field in `header`, modulo values().
  void add(std::span<uint8_t> header, uint64_t amount) const;
};

/// A checksum in the headers, and the range that it covers.
struct Checksum {
  uint16_t offset;   ///< of the checksum field
  uint16_t begin;    ///< first byte covered
  uint16_t l3;       ///< offset of the IP header that gives the pseudo-header
  uint8_t protocol;  ///< 0: an IPv4 header checksum; else the L4 protocol
  bool ipv6;         ///< the pseudo-header's version
  [[nodiscard]] bool covers(uint16_t at) const;
};

/// The bytes of a stack in a frame of one size.
struct Headers {
  static constexpr size_t kMax = 192;

  std::vector<uint8_t> bytes;
  std::vector<Field> fields;        ///< outermost first
  std::vector<Checksum> checksums;  ///< innermost last
  uint16_t frame_length;            ///< without FCS

  /// The innermost field of that name, or the outermost if the name begins with "outer_".
  [[nodiscard]] const Field* find(std::string_view name) const;
  /// Computes all checksums in `header`, which contains `bytes` of this stack; the payload counts
  /// as zero.
  void fix_checksums(std::span<uint8_t> header) const;
  /// The checksum that covers the payload, if one does.
  [[nodiscard]] const Checksum* payload_checksum() const;
};

class HeaderStack {
 public:
  /// Checks that each layer may follow the one before; errors name the layer.
  static Result<HeaderStack> make(std::vector<Layer> layers);
  /// As make(), from JSON at `path`; members that a layer doesn't state keep their defaults.
  static Result<HeaderStack> from_json(const nlohmann::json& layers, const std::string& path);

  /// A stack's layers, to change defaults before build().
  [[nodiscard]] std::vector<Layer>& layers() { return layers_; }
  [[nodiscard]] const std::vector<Layer>& layers() const { return layers_; }
  [[nodiscard]] uint16_t length() const;

  /// The headers of a frame with `frame_length` bytes (without FCS; at least length()).
  [[nodiscard]] Headers build(uint16_t frame_length) const;

 private:
  explicit HeaderStack(std::vector<Layer> layers) : layers_(std::move(layers)) {}

  std::vector<Layer> layers_;
};

/// A layer of `kind` with its default addresses: RFC 2544's 198.18/15, RFC 5180's 2001:2::/48, UDP
/// and TCP to port 9 (discard), tunnels to their well-known ports.
Layer default_layer(LayerKind kind);

std::string_view to_string(LayerKind kind);
std::optional<LayerKind> layer_kind(std::string_view name);

/// The bytes of an address of `family` (AF_INET or AF_INET6); IPv4 in the first four.
std::optional<std::array<uint8_t, 16>> parse_ip(int family, const std::string& text);

}  // namespace headrace::traffic
