// SPDX-License-Identifier: Apache-2.0
// What the extractor's variants for AVX2 and AVX-512 share: which frames they take, where the
// headers of those lie, and how their ParsedPacket is made. For source files of variants only.
#pragma once

#include <array>
#include <cstring>

#include "match/fields/extract.h"
#include "match/fields/intrinsics.h"
#include "packet/bytes.h"
#include "packet/headers.h"

#if HEADRACE_HAS_X86_VECTORS
namespace headrace::match {

namespace vector {

constexpr size_t kPrefetchAhead = 6;
constexpr size_t kEthernet = sizeof(packet::EthernetHeader);
constexpr size_t kTag = sizeof(packet::VlanTag);
constexpr size_t kPorts = 4;                                              ///< octets of L4 ports
constexpr size_t kTtlAt = kEthernet + offsetof(packet::Ipv4Header, ttl);  ///< of plain IPv4

/// Words of FlowKey's first line, which the variants write as a whole.
constexpr WordSet kLine = 0xff;

/// The frames that a permutation serves.
enum class Kind : uint8_t { plain, tagged, ipv4, tagged_ipv4, ipv6 };

/// Where a kind's headers lie.
template <Kind kind>
struct Place {
  static constexpr bool v6 = kind == Kind::ipv6;
  static constexpr bool tagged = kind == Kind::tagged || kind == Kind::tagged_ipv4;
  static constexpr size_t l2_end = kEthernet + (tagged ? kTag : 0);
  static constexpr size_t l4 =
      l2_end + (v6 ? sizeof(packet::Ipv6Header) : sizeof(packet::Ipv4Header));
  static constexpr size_t proto = l2_end + (v6 ? offsetof(packet::Ipv6Header, next_header)
                                               : offsetof(packet::Ipv4Header, proto));
};

/// Any frame of at least this size may be loaded up to it. Nothing behind it is read: a buffer may
/// end there.
constexpr size_t kLoaded =
    kEthernet + kTag + sizeof(packet::Ipv4Header) + sizeof(packet::TcpHeader);
static_assert(kLoaded >= kEthernet + sizeof(packet::Ipv6Header) + kPorts);

// What the L4 protocol of a frame says about it, as bits.
constexpr uint8_t kL4Known = 1;    ///< there is a header that Headrace knows
constexpr uint8_t kL4Ports = 2;    ///< it begins with ports
constexpr uint8_t kL4Special = 4;  ///< at depth full the frame is the general parser's

constexpr std::array<uint8_t, 256> make_l4() {
  std::array<uint8_t, 256> made{};
  for (unsigned proto = 0; proto < 256; ++proto) {
    if (packet::l4_header_size(static_cast<uint8_t>(proto)) != 0) made[proto] = kL4Known;
  }
  for (const uint8_t proto : {packet::kProtoTcp, packet::kProtoUdp, packet::kProtoSctp}) {
    made[proto] |= kL4Ports;
  }
  made[packet::kProtoIcmp] |= kL4Special;
  return made;
}
constexpr std::array<uint8_t, 256> kL4 = make_l4();

/// True if the frame, of `size` bytes, is long enough for the kind's straight path: nothing that it
/// reads may be missing, by the frame's end or by what the IP header says.
template <Kind kind>
inline bool long_enough(const uint8_t* frame, size_t size) {
  if constexpr (kind == Kind::ipv6) {
    const uint8_t* ip = frame + kEthernet;
    const uint8_t proto = ip[offsetof(packet::Ipv6Header, next_header)];
    const size_t need = proto == packet::kProtoUdp   ? sizeof(packet::UdpHeader)
                        : proto == packet::kProtoTcp ? sizeof(packet::TcpHeader)
                                                     : 0xffff + 1;
    return packet::load_be16(ip + offsetof(packet::Ipv6Header, payload_length)) >= need &&
           size >= kEthernet + sizeof(packet::Ipv6Header) + need;
  } else {
    constexpr size_t kLeast = sizeof(packet::Ipv4Header) + sizeof(packet::TcpHeader);
    const uint8_t* ip = frame + Place<kind>::l2_end;
    return packet::load_be16(ip + offsetof(packet::Ipv4Header, total_length)) >= kLeast;
  }
}

/// 16 bytes: of a result, or of what makes it of 16 bytes of a frame.
struct alignas(16) Block {
  std::array<uint8_t, 16> bytes{};
};
constexpr uint8_t kNothing = 0x80;  ///< as an index of a byte: 0

constexpr Block all_of(uint8_t value) {
  Block made;
  made.bytes.fill(value);
  return made;
}

constexpr void put16(Block& block, size_t at, uint16_t raw) {
  block.bytes[at] = static_cast<uint8_t>(raw);
  block.bytes[at + 1] = static_cast<uint8_t>(raw >> 8);
}

HEADRACE_AVX2 inline __m128i load(const Block& block) {
  return _mm_load_si128(reinterpret_cast<const __m128i*>(block.bytes.data()));
}

HEADRACE_AVX2 inline __m128i load_16(const uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

/// How the ParsedPacket of a kind is made.
struct ParsedLayout {
  Block index = all_of(kNothing);  ///< byte i is frame byte index[i], counted from `from` on,
  size_t from{0};
  std::array<Block, 2> add{};  ///< and these, by whether the L4 header is known
};

constexpr ParsedLayout make_parsed_layout(Kind kind, size_t l2_end, size_t l4, size_t proto) {
  using packet::ParsedPacket;
  static_assert(sizeof(ParsedPacket) == sizeof(Block) && offsetof(ParsedPacket, l2_end) == 0);
  constexpr size_t kType = offsetof(ParsedPacket, eth_type);
  ParsedLayout made;
  if (kind == Kind::plain || kind == Kind::tagged) {
    made.index.bytes[kType] = static_cast<uint8_t>(l2_end - 2);
    made.index.bytes[kType + 1] = static_cast<uint8_t>(l2_end - 1);
    if (kind == Kind::tagged) made.from = kTag;
    for (size_t i = kType; i < kType + 2; ++i) {
      made.index.bytes[i] = static_cast<uint8_t>(made.index.bytes[i] - made.from);
    }
  } else {
    made.from = kEthernet;
    made.index.bytes[offsetof(ParsedPacket, ip_proto)] = static_cast<uint8_t>(proto - made.from);
  }
  for (const bool known : {false, true}) {
    Block& add = made.add[known ? 1 : 0];
    put16(add, offsetof(ParsedPacket, l2_end), static_cast<uint16_t>(l2_end));
    add.bytes[offsetof(ParsedPacket, vlan_tags)] = l2_end != kEthernet ? 1 : 0;
    if (kind == Kind::plain || kind == Kind::tagged) continue;
    const bool v6 = kind == Kind::ipv6;
    put16(add, kType, v6 ? packet::kTypeIpv6 : packet::kTypeIpv4);
    put16(add, offsetof(ParsedPacket, l3), static_cast<uint16_t>(l2_end));
    put16(add, offsetof(ParsedPacket, l4), static_cast<uint16_t>(known ? l4 : 0));
    put16(add, offsetof(ParsedPacket, flags), v6 ? packet::kIpv6 : packet::kIpv4);
  }
  return made;
}

/// Static, as a look at a symbol that others see goes through an address table.
template <Kind kind>
static constexpr ParsedLayout kParsed = make_parsed_layout(kind, Place<kind>::l2_end,
                                                           Place<kind>::l4, Place<kind>::proto);

/// The ParsedPacket of a frame of this kind. `known`: its L4 header is looked at, and known.
template <Kind kind>
HEADRACE_AVX2 inline void store_parsed(packet::ParsedPacket& parsed, const uint8_t* frame,
                                       bool known = false) {
  constexpr const ParsedLayout& layout = kParsed<kind>;
  const __m128i bytes = _mm_shuffle_epi8(load_16(frame + layout.from), load(layout.index));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&parsed),
                   _mm_or_si128(bytes, load(layout.add[known ? 1 : 0])));
}

/// What depth full adds to words 8..23, which are 0.
template <Kind kind>
inline void fill_rest(const uint8_t* frame, uint8_t proto, FlowKey& values) {
  using At = Place<kind>;
  if (proto == packet::kProtoTcp) {
    values.tcp_flags =
        packet::load_raw16(frame + At::l4 + offsetof(packet::TcpHeader, offset_flags)) &
        packet::swap16(0x0fff);
  }
  if constexpr (At::v6) {
    const uint8_t* ip = frame + At::l2_end;
    values.ipv6_flabel = packet::load_raw32(ip) & packet::swap32(0x000fffff);
    std::memcpy(values.ipv6_src, ip + offsetof(packet::Ipv6Header, src), sizeof values.ipv6_src);
    std::memcpy(values.ipv6_dst, ip + offsetof(packet::Ipv6Header, dst), sizeof values.ipv6_dst);
  }
}

}  // namespace vector
}  // namespace headrace::match
#endif
