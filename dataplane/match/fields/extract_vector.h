// SPDX-License-Identifier: Apache-2.0
// The extractor's variants for vector instructions, and what they share: a frame's headers as
// registers.
//
// A usual frame has its fields at fixed places, all within its first 64 bytes, and the first eight
// words of FlowKey are 64 bytes, too. So extraction is a permutation of bytes: load, check the
// bytes that must have fixed values (type, version, no fragment), permute, shift DSCP and ECN out
// of their octet, mask, add the constants of the burst, store. Three layouts have such a
// permutation: IPv4 without options, the same behind one VLAN tag, and IPv6 without extension
// headers. All else goes through the general parser.
//
// AVX-512 permutes the 64 bytes as one register; AVX2, which permutes within 16 bytes, loads each
// 16 bytes of the line from where all their sources are. Both take the same frames and gather the
// same burst metadata.
#pragma once

#include <array>

#include "match/fields/extract.h"
#include "match/fields/simd.h"
#include "packet/bytes.h"
#include "packet/headers.h"

namespace headrace::match {

/// As extractor_for(), for processors where simd() is avx2, avx512; null in builds without it.
[[nodiscard]] Extractor avx2_extractor_for(Depth depth) noexcept;
[[nodiscard]] Extractor avx512_extractor_for(Depth depth) noexcept;

/// The general parser: any packet, any depth.
void extract_any(Depth depth, const rte_mbuf* packet, FlowKey& values,
                 packet::ParsedPacket& parsed) noexcept;

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

/// What the L4 protocol of a frame says about it.
struct L4 {
  bool usual;  ///< the straight path may go on
  bool known;  ///< there is a header that Headrace knows
  bool ports;
};

constexpr L4 l4_of(uint8_t proto) {
  const bool ports =
      proto == packet::kProtoTcp || proto == packet::kProtoUdp || proto == packet::kProtoSctp;
  return {.usual = proto != packet::kProtoIcmp,
          .known = packet::l4_header_size(proto) != 0,
          .ports = ports};
}

constexpr std::array<L4, 256> make_l4() {
  std::array<L4, 256> made{};
  for (unsigned proto = 0; proto < 256; ++proto) made[proto] = l4_of(static_cast<uint8_t>(proto));
  return made;
}
inline constexpr std::array<L4, 256> kL4 = make_l4();

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

inline void store_parsed(packet::ParsedPacket& parsed, uint64_t low, uint64_t high) {
  packet::store_raw64(reinterpret_cast<uint8_t*>(&parsed), low);
  packet::store_raw64(reinterpret_cast<uint8_t*>(&parsed) + 8, high);
}

/// The ParsedPacket of an IP frame of this kind. `l4_offset`: 0 if nothing is known there.
template <Kind kind>
inline void store_parsed_ip(packet::ParsedPacket& parsed, uint64_t l4_offset, uint8_t proto) {
  using At = Place<kind>;
  constexpr uint64_t kType = At::v6 ? packet::kTypeIpv6 : packet::kTypeIpv4;
  constexpr uint64_t kFlag = At::v6 ? packet::kIpv6 : packet::kIpv4;
  store_parsed(parsed, At::l2_end | At::l2_end << 16 | l4_offset << 32 | kType << 48,
               kFlag | uint64_t{proto} << 32 | uint64_t{At::tagged} << 40);
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
