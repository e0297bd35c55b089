// SPDX-License-Identifier: Apache-2.0
#include "traffic/frames/header_stack.h"

#include <algorithm>

namespace headrace::traffic {

namespace {

constexpr uint16_t kVxlanPort = 4789;
constexpr uint16_t kGtpuPort = 2152;
constexpr uint8_t kIpProtoTcp = 6;
constexpr uint8_t kIpProtoUdp = 17;
constexpr uint8_t kIpProtoGre = 47;
constexpr uint8_t kIpProtoIpip = 4;
constexpr uint8_t kIpProtoIpv6 = 41;

using Kind = LayerKind;
using Bytes = std::vector<uint8_t>;

void put(Bytes& to, uint64_t value, unsigned bytes) {
  for (unsigned i = bytes; i-- > 0;) to.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

void store(std::span<uint8_t> at, size_t offset, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) {
    at[offset + i] = static_cast<uint8_t>(value >> (8 * (bytes - 1 - i)));
  }
}

uint64_t load(std::span<const uint8_t> from, size_t offset, unsigned bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) value = value << 8 | from[offset + i];
  return value;
}

template <size_t N>
void put(Bytes& to, const std::array<uint8_t, N>& from, size_t count = N) {
  to.insert(to.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
}

uint16_t ethertype(Kind next) {
  switch (next) {
    case Kind::vlan:
      return 0x8100;
    case Kind::mpls:
      return 0x8847;
    case Kind::pppoe:
      return 0x8864;
    case Kind::ipv6:
      return 0x86DD;
    case Kind::arp:
      return 0x0806;
    case Kind::ethernet:
      return 0x6558;  // GRE: transparent Ethernet bridging
    default:
      return 0x0800;
  }
}

uint8_t ip_protocol(Kind next) {
  switch (next) {
    case Kind::tcp:
      return kIpProtoTcp;
    case Kind::gre:
      return kIpProtoGre;
    case Kind::ipv4:
      return kIpProtoIpip;
    case Kind::ipv6:
      return kIpProtoIpv6;
    default:
      return kIpProtoUdp;
  }
}

uint16_t length_of(const Layer& layer) {
  switch (layer.kind) {
    case Kind::ethernet:
      return 14;
    case Kind::vlan:
    case Kind::mpls:
      return 4;
    case Kind::pppoe:
    case Kind::vxlan:
    case Kind::gtpu:
    case Kind::udp:
      return 8;
    case Kind::ipv4:
    case Kind::tcp:
      return 20;
    case Kind::ipv6:
      return 40;
    case Kind::gre:
      return layer.id ? 8 : 4;
    case Kind::arp:
      return 28;
  }
  return 0;
}

bool may_follow(std::optional<Kind> before, Kind kind) {
  if (!before) return kind == Kind::ethernet;
  const auto is = [kind](std::initializer_list<Kind> kinds) {
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  };
  switch (*before) {
    case Kind::ethernet:
    case Kind::vlan:
      return is({Kind::vlan, Kind::mpls, Kind::pppoe, Kind::ipv4, Kind::ipv6, Kind::arp});
    case Kind::mpls:
      return is({Kind::mpls, Kind::ipv4, Kind::ipv6, Kind::ethernet});
    case Kind::pppoe:
      return is({Kind::ipv4, Kind::ipv6});
    case Kind::ipv4:
    case Kind::ipv6:
      return is({Kind::udp, Kind::tcp, Kind::gre, Kind::ipv4, Kind::ipv6});
    case Kind::gre:
      return is({Kind::ethernet, Kind::ipv4, Kind::ipv6, Kind::mpls});
    case Kind::udp:
      return is({Kind::vxlan, Kind::gtpu});
    case Kind::vxlan:
      return is({Kind::ethernet});
    case Kind::gtpu:
      return is({Kind::ipv4, Kind::ipv6});
    case Kind::tcp:
    case Kind::arp:
      return false;
  }
  return false;
}

uint64_t sum_words(std::span<const uint8_t> bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) sum += load(bytes, i, 2);
  if (bytes.size() % 2 != 0) sum += uint64_t{bytes.back()} << 8;
  return sum;
}

uint16_t fold(uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

/// Builds the bytes of one stack, layer by layer.
class Builder {
 public:
  Builder(const std::vector<Layer>& layers, uint16_t frame_length) : layers_(layers) {
    headers_.frame_length = frame_length;
  }

  Headers build() && {
    for (index_ = 0; index_ < layers_.size(); ++index_) {
      offset_ = static_cast<uint16_t>(headers_.bytes.size());
      add(layers_[index_]);
    }
    headers_.fix_checksums(headers_.bytes);
    return std::move(headers_);
  }

 private:
  [[nodiscard]] std::optional<Kind> next() const {
    if (index_ + 1 == layers_.size()) return std::nullopt;
    return layers_[index_ + 1].kind;
  }
  [[nodiscard]] uint16_t rest() const {
    return static_cast<uint16_t>(headers_.frame_length - offset_);
  }
  /// Adds a field `at` bytes into the layer.
  void field(const char* name, unsigned at, uint8_t bytes, uint8_t bits, uint8_t shift = 0) {
    headers_.fields.push_back(Field{.name = name,
                                    .offset = static_cast<uint16_t>(offset_ + at),
                                    .bytes = bytes,
                                    .bits = bits,
                                    .shift = shift});
  }

  void add(const Layer& layer) {
    switch (layer.kind) {
      case Kind::ethernet:
        return ethernet(layer);
      case Kind::vlan:
        return vlan(layer);
      case Kind::mpls:
        return mpls(layer);
      case Kind::pppoe:
        return pppoe(layer);
      case Kind::ipv4:
        return ipv4(layer);
      case Kind::ipv6:
        return ipv6(layer);
      case Kind::gre:
        return gre(layer);
      case Kind::vxlan:
        return vxlan(layer);
      case Kind::gtpu:
        return gtpu(layer);
      case Kind::udp:
        return udp(layer);
      case Kind::tcp:
        return tcp(layer);
      case Kind::arp:
        return arp(layer);
    }
  }

  void ethernet(const Layer& layer) {
    field("eth_dst", 2, 4, 24);
    field("eth_src", 8, 4, 24);
    put(bytes(), layer.dst_mac);
    put(bytes(), layer.src_mac);
    const bool qinq = next() == Kind::vlan && index_ + 2 < layers_.size() &&
                      layers_[index_ + 2].kind == Kind::vlan;
    put(bytes(), qinq ? 0x88A8 : ethertype(next().value_or(Kind::ipv4)), 2);
  }

  void vlan(const Layer& layer) {
    field("vlan_vid", 0, 2, 12);
    put(bytes(), layer.priority << 13 | (layer.id.value_or(1) & 0xfff), 2);
    put(bytes(), ethertype(next().value_or(Kind::ipv4)), 2);
  }

  void mpls(const Layer& layer) {
    field("mpls_label", 0, 4, 20, 12);
    const uint32_t bottom = next() == Kind::mpls ? 0 : 1;
    put(bytes(), layer.id.value_or(16) << 12 | layer.priority << 9 | bottom << 8 | layer.ttl, 4);
  }

  void pppoe(const Layer& layer) {
    field("tunnel_id", 2, 2, 16);
    put(bytes(), 0x1100, 2);  // version 1, type 1, session data
    put(bytes(), layer.id.value_or(1), 2);
    put(bytes(), rest() - 6U, 2);
    put(bytes(), next() == Kind::ipv6 ? 0x0057 : 0x0021, 2);
  }

  void ipv4(const Layer& layer) {
    field("ipv4_src", 12, 4, 32);
    field("ipv4_dst", 16, 4, 32);
    headers_.checksums.push_back(Checksum{.offset = static_cast<uint16_t>(offset_ + 10),
                                          .begin = offset_,
                                          .l3 = offset_,
                                          .protocol = 0,
                                          .ipv6 = false});
    put(bytes(), 0x45, 1);
    put(bytes(), layer.priority << 2, 1);
    put(bytes(), rest(), 2);
    put(bytes(), 0, 4);
    put(bytes(), layer.ttl, 1);
    put(bytes(), ip_protocol(next().value_or(Kind::udp)), 1);
    put(bytes(), 0, 2);
    put(bytes(), layer.src_ip, 4);
    put(bytes(), layer.dst_ip, 4);
    l3_ = offset_;
    l3_is_ipv6_ = false;
  }

  void ipv6(const Layer& layer) {
    field("ipv6_src", 20, 4, 32);
    field("ipv6_dst", 36, 4, 32);
    put(bytes(), uint32_t{6} << 28 | static_cast<uint32_t>(layer.priority) << 22, 4);
    put(bytes(), rest() - 40U, 2);
    put(bytes(), ip_protocol(next().value_or(Kind::udp)), 1);
    put(bytes(), layer.ttl, 1);
    put(bytes(), layer.src_ip);
    put(bytes(), layer.dst_ip);
    l3_ = offset_;
    l3_is_ipv6_ = true;
  }

  void gre(const Layer& layer) {
    put(bytes(), layer.id ? 0x2000 : 0, 2);
    put(bytes(), ethertype(next().value_or(Kind::ipv4)), 2);
    if (layer.id) {
      field("tunnel_id", 4, 4, 32);
      put(bytes(), *layer.id, 4);
    }
  }

  void vxlan(const Layer& layer) {
    field("tunnel_id", 4, 4, 24, 8);
    put(bytes(), 0x08000000, 4);
    put(bytes(), layer.id.value_or(1) << 8, 4);
  }

  void gtpu(const Layer& layer) {
    field("tunnel_id", 4, 4, 32);
    put(bytes(), 0x30FF, 2);  // version 1, GTP, no options; G-PDU
    put(bytes(), rest() - 8U, 2);
    put(bytes(), layer.id.value_or(1), 4);
  }

  void udp(const Layer& layer) {
    field("udp_src", 0, 2, 16);
    field("udp_dst", 2, 2, 16);
    const uint16_t well_known = next() == Kind::gtpu ? kGtpuPort : kVxlanPort;
    put(bytes(), layer.src_port.value_or(49152), 2);
    put(bytes(), layer.dst_port.value_or(next() ? well_known : 9), 2);
    put(bytes(), rest(), 2);
    put(bytes(), 0, 2);
    if (!next() && l3_is_ipv6_) l4_checksum(6, kIpProtoUdp);
  }

  void tcp(const Layer& layer) {
    field("tcp_src", 0, 2, 16);
    field("tcp_dst", 2, 2, 16);
    put(bytes(), layer.src_port.value_or(49152), 2);
    put(bytes(), layer.dst_port.value_or(9), 2);
    put(bytes(), 0, 8);
    put(bytes(), 0x5010, 2);  // five words, ACK
    put(bytes(), 0xffff, 2);
    put(bytes(), 0, 4);
    l4_checksum(16, kIpProtoTcp);
  }

  void arp(const Layer& layer) {
    field("ipv4_src", 14, 4, 32);
    field("ipv4_dst", 24, 4, 32);
    put(bytes(), 0x0001080006040001, 8);  // Ethernet, IPv4, a request
    put(bytes(), layer.src_mac);
    put(bytes(), layer.src_ip, 4);
    put(bytes(), 0, 6);
    put(bytes(), layer.dst_ip, 4);
  }

  void l4_checksum(unsigned at, uint8_t protocol) {
    headers_.checksums.push_back(Checksum{.offset = static_cast<uint16_t>(offset_ + at),
                                          .begin = offset_,
                                          .l3 = l3_,
                                          .protocol = protocol,
                                          .ipv6 = l3_is_ipv6_});
  }

  Bytes& bytes() { return headers_.bytes; }

  const std::vector<Layer>& layers_;
  Headers headers_{};
  size_t index_{0};
  uint16_t offset_{0};
  uint16_t l3_{0};
  bool l3_is_ipv6_{false};
};

}  // namespace

void Field::add(std::span<uint8_t> header, uint64_t amount) const {
  const uint64_t old = load(header, offset, bytes);
  const uint64_t mask = (values() - 1) << shift;
  store(header, offset, (old & ~mask) | ((old + (amount << shift)) & mask), bytes);
}

bool Checksum::covers(uint16_t at) const {
  if (protocol == 0) return at >= begin && at < begin + 20;
  // The pseudo-header includes the addresses, which are at the end of the IP header.
  const uint16_t addresses = static_cast<uint16_t>(l3 + (ipv6 ? 8 : 12));
  return at >= begin || (at >= addresses && at < l3 + (ipv6 ? 40 : 20));
}

const Field* Headers::find(std::string_view name) const {
  constexpr std::string_view kOuter = "outer_";
  if (name.starts_with(kOuter)) {
    name.remove_prefix(kOuter.size());
    const auto found =
        std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
    return found == fields.end() ? nullptr : &*found;
  }
  const auto found =
      std::find_if(fields.rbegin(), fields.rend(), [&](const Field& f) { return f.name == name; });
  return found == fields.rend() ? nullptr : &*found;
}

void Headers::fix_checksums(std::span<uint8_t> header) const {
  for (const Checksum& checksum : checksums) {
    store(header, checksum.offset, 0, 2);
    if (checksum.protocol == 0) {
      store(header, checksum.offset, fold(sum_words(header.subspan(checksum.begin, 20))), 2);
      continue;
    }
    const size_t addresses = checksum.l3 + (checksum.ipv6 ? 8U : 12U);
    const size_t address_bytes = checksum.ipv6 ? 32 : 8;
    uint64_t sum = sum_words(header.subspan(addresses, address_bytes)) + checksum.protocol;
    sum += static_cast<uint64_t>(frame_length - checksum.begin);
    sum += sum_words(header.subspan(checksum.begin));
    const uint16_t value = fold(sum);
    store(header, checksum.offset, value == 0 && checksum.protocol == kIpProtoUdp ? 0xffff : value,
          2);
  }
}

const Checksum* Headers::payload_checksum() const {
  return !checksums.empty() && checksums.back().protocol != 0 ? &checksums.back() : nullptr;
}

Result<HeaderStack> HeaderStack::make(std::vector<Layer> layers) {
  std::optional<Kind> before;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!may_follow(before, layers[i].kind)) {
      return fail_as("bad_params", "layer {}: {} cannot {} {}", i, to_string(layers[i].kind),
                     before ? "follow" : "be", before ? to_string(*before) : "the first");
    }
    before = layers[i].kind;
  }
  if (!before) return fail_as("bad_params", "no layers; the first must be ethernet");
  if (may_follow(before, Kind::ethernet) || *before == Kind::pppoe || *before == Kind::gtpu) {
    return fail_as("bad_params", "nothing follows {}; add the inner headers", to_string(*before));
  }
  HeaderStack stack(std::move(layers));
  if (stack.length() > Headers::kMax) {
    return fail_as("bad_params", "{} bytes of headers; the maximum is {}", stack.length(),
                   Headers::kMax);
  }
  return stack;
}

uint16_t HeaderStack::length() const {
  uint16_t length = 0;
  for (const Layer& layer : layers_) length = static_cast<uint16_t>(length + length_of(layer));
  return length;
}

Headers HeaderStack::build(uint16_t frame_length) const {
  return Builder(layers_, frame_length).build();
}

}  // namespace headrace::traffic
