// SPDX-License-Identifier: Apache-2.0
#include <rte_prefetch.h>

#include "match/fields/extract_layout.h"
#include "match/fields/extract_vector.h"

namespace headrace::match {

#if HEADRACE_HAS_X86_VECTORS
namespace {

using namespace vector;
using packet::ParsedPacket;

using Line = std::array<uint8_t, 64>;

/// How the first line of FlowKey comes out of the first 64 bytes of a frame.
struct alignas(64) Layout {
  Line check_mask{};   ///< a frame is of this kind if, under this mask,
  Line check_value{};  ///< its bytes are these
  Line index{};        ///< byte i of the line is frame byte index[i],
  Line shift{};        ///< then the eight bits from this one on of its word,
  Line keep{};         ///< and of those the bits of this mask,
  Line add{};          ///< and these
  Line keep_no_ports{};
};

constexpr Layout make_layout(Kind kind, Depth depth) {
  Layout made;
  for (size_t i = 0; i < 64; ++i) made.shift[i] = static_cast<uint8_t>(i % 8 * 8);
  const auto take = [&made](size_t to, size_t from, uint8_t keep = 0xff) {
    made.index[to] = static_cast<uint8_t>(from);
    made.keep[to] = keep;
  };
  const auto check = [&made](size_t at, uint8_t mask, uint8_t value) {
    made.check_mask[at] = mask;
    made.check_value[at] = value;
  };
  const bool tagged = kind == Kind::tagged_ipv4;
  const size_t l2_end = kEthernet + (tagged ? kTag : 0);
  for (size_t i = 0; i < 6; ++i) {
    take(offsetof(FlowKey, eth_dst) + i, i);
    take(offsetof(FlowKey, eth_src) + i, 6 + i);
  }
  take(offsetof(FlowKey, eth_type), l2_end - 2);
  take(offsetof(FlowKey, eth_type) + 1, l2_end - 1);
  if (tagged) {
    take(offsetof(FlowKey, vlan_vid), kEthernet, 0x0f);
    take(offsetof(FlowKey, vlan_vid) + 1, kEthernet + 1);
    made.add[offsetof(FlowKey, vlan_vid)] = 0x10;  // OFPVID_PRESENT
  }
  if (depth != Depth::l2) {
    constexpr size_t kPcp = offsetof(FlowKey, vlan_pcp);
    constexpr size_t kDscp = offsetof(FlowKey, ip_dscp);
    constexpr size_t kEcn = offsetof(FlowKey, ip_ecn);
    if (tagged) {
      check(kEthernet - 2, 0xff, 0x81);
      check(kEthernet - 1, 0xff, 0x00);
      take(kPcp, kEthernet, 0x07);
      made.shift[kPcp] += 5;
    }
    size_t l4 = 0;
    if (kind == Kind::ipv6) {
      check(l2_end - 2, 0xff, 0x86);
      check(l2_end - 1, 0xff, 0xdd);
      check(l2_end, 0xf0, 0x60);
      take(offsetof(FlowKey, ip_proto), l2_end + offsetof(packet::Ipv6Header, next_header));
      // The traffic class lies across two octets. The later one goes first: then it is 8 bits of
      // the little-endian word, from bit 4 of byte 1 on.
      take(kDscp, l2_end + 1, 0x3f);
      take(kEcn, l2_end, 0x03);
      made.shift[kDscp] = 8 + 6;
      made.shift[kEcn] = 8 + 4;
      l4 = l2_end + sizeof(packet::Ipv6Header);
    } else {
      check(l2_end - 2, 0xff, 0x08);
      check(l2_end - 1, 0xff, 0x00);
      check(l2_end, 0xff, 0x45);
      check(l2_end + offsetof(packet::Ipv4Header, fragment), 0x3f, 0);
      check(l2_end + offsetof(packet::Ipv4Header, fragment) + 1, 0xff, 0);
      for (size_t i = 0; i < 8; ++i) {
        take(offsetof(FlowKey, ipv4_src) + i, l2_end + offsetof(packet::Ipv4Header, src) + i);
      }
      take(offsetof(FlowKey, ip_proto), l2_end + offsetof(packet::Ipv4Header, proto));
      take(kDscp, l2_end + offsetof(packet::Ipv4Header, tos), 0x3f);
      take(kEcn, l2_end + offsetof(packet::Ipv4Header, tos), 0x03);
      made.shift[kDscp] += 2;
      l4 = l2_end + sizeof(packet::Ipv4Header);
    }
    made.keep_no_ports = made.keep;
    if (depth >= Depth::l4) {
      for (size_t i = 0; i < kPorts; ++i) take(offsetof(FlowKey, l4_src) + i, l4 + i);
    }
  } else {
    made.keep_no_ports = made.keep;
  }
  return made;
}

template <Kind kind, Depth depth>
inline constexpr Layout kLayout = make_layout(kind, depth);

HEADRACE_AVX512 inline __m512i load(const Line& line) {
  return _mm512_load_si512(line.data());
}

/// Zeroes words 8..23.
HEADRACE_AVX512 inline void zero_rest(FlowKey& values) {
  auto* line = reinterpret_cast<uint8_t*>(&values);
  _mm512_storeu_si512(line + 64, _mm512_setzero_si512());
  _mm512_storeu_si512(line + 128, _mm512_setzero_si512());
}

constexpr uint64_t kLoadedMask = (uint64_t{1} << kLoaded) - 1;

/// Extracts a frame of this kind; false, and nothing written, if it is none. `line`: the first of
/// the values.
template <Kind kind, Depth depth>
HEADRACE_AVX512 inline bool extract_ip(__m512i first, const uint8_t* frame, size_t size,
                                       __m512i ports, FlowKey& values, ParsedPacket& parsed,
                                       __m512i& line) {
  constexpr const Layout& layout = kLayout<kind, depth>;
  using At = Place<kind>;
  if (_mm512_cmpneq_epi64_mask(_mm512_and_si512(first, load(layout.check_mask)),
                               load(layout.check_value)) != 0 ||
      !long_enough<kind>(frame, size)) {
    return false;
  }
  const uint8_t proto = frame[At::proto];
  const unsigned l4 = depth >= Depth::l4 ? kL4[proto] : 0;
  if (depth == Depth::full && (l4 & kL4Special) != 0) return false;
  const __m512i keep = load((l4 & kL4Ports) != 0 ? layout.keep : layout.keep_no_ports);
  const __m512i words = _mm512_multishift_epi64_epi8(
      load(layout.shift), _mm512_permutexvar_epi8(load(layout.index), first));
  const __m512i constants = At::tagged ? _mm512_or_si512(ports, load(layout.add)) : ports;
  // (words & keep) | constants
  line = _mm512_ternarylogic_epi64(words, keep, constants, 0xea);
  _mm512_storeu_si512(&values, line);
  if constexpr (depth == Depth::full) {
    zero_rest(values);
    fill_rest<kind>(frame, proto, values);
  }
  store_parsed<kind>(parsed, frame, (l4 & kL4Known) != 0);
  return true;
}

/// A burst's metadata in the making.
struct Gathered {
  __m512i all;    ///< bits that are set in the first lines of all packets
  __m512i any;    ///< in one of them
  __m512i least;  ///< octet by octet, of the frames that are plain IPv4
  bool plain;     ///< all are
};

HEADRACE_AVX512 inline void note(Gathered& gathered, __m512i line) {
  gathered.all = _mm512_and_si512(gathered.all, line);
  gathered.any = _mm512_or_si512(gathered.any, line);
}

HEADRACE_AVX512 inline BurstMetadata metadata_of(const Gathered& gathered) {
  static_assert(kTtlAt < 32);
  const __m256i least = _mm512_castsi512_si256(gathered.least);
  const bool lasts = (_mm256_cmpgt_epu8_mask(least, _mm256_set1_epi8(1)) >> kTtlAt & 1u) != 0;
  return {.differ = ~kLine | _mm512_cmpneq_epi64_mask(gathered.all, gathered.any),
          .plain_ipv4 = gathered.plain,
          .ttl_lasts = gathered.plain && lasts};
}

template <Depth depth>
HEADRACE_AVX512 BurstMetadata extract_burst(std::span<rte_mbuf* const> packets, BurstPort port,
                                            FlowKey* values, ParsedPacket* parsed) noexcept {
  const __m512i ports =
      _mm512_set_epi64(0, 0, 0, 0, 0,
                       static_cast<int64_t>(uint64_t{packet::swap32(port.in_port)} |
                                            uint64_t{packet::swap32(port.in_phy_port)} << 32),
                       0, 0);
  const __m512i ones = _mm512_set1_epi64(-1);
  Gathered gathered{.all = ones, .any = _mm512_setzero_si512(), .least = ones, .plain = true};
  const size_t count = packets.size();
  for (size_t i = 0; i < count && i < kPrefetchAhead; ++i) {
    rte_prefetch0(rte_pktmbuf_mtod(packets[i], const void*));
  }
  for (size_t i = 0; i < count; ++i) {
    if (i + kPrefetchAhead < count) {
      rte_prefetch0(rte_pktmbuf_mtod(packets[i + kPrefetchAhead], const void*));
    }
    const rte_mbuf* packet = packets[i];
    const size_t size = packet->data_len;
    FlowKey& to = values[i];
    if (size >= kLoaded) [[likely]] {
      const auto* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
      const __m512i first = _mm512_maskz_loadu_epi8(kLoadedMask, frame);
      __m512i line;
      if (extract_ip<Kind::ipv4, depth>(first, frame, size, ports, to, parsed[i], line))
          [[likely]] {
        note(gathered, line);
        gathered.least = _mm512_min_epu8(gathered.least, first);
        continue;
      }
      if (extract_ip<Kind::tagged_ipv4, depth>(first, frame, size, ports, to, parsed[i], line) ||
          extract_ip<Kind::ipv6, depth>(first, frame, size, ports, to, parsed[i], line)) {
        note(gathered, line);
        gathered.plain = false;
        continue;
      }
    }
    gathered.plain = false;
    _mm512_storeu_si512(&to, ports);
    if constexpr (depth == Depth::full) zero_rest(to);  // the tunnel's words, too
    extract_any(depth, packet, to, parsed[i]);
    note(gathered, _mm512_loadu_si512(&to));
  }
  return metadata_of(gathered);
}

}  // namespace

Extractor avx512_extractor_for(Depth depth) noexcept {
  switch (depth) {
    case Depth::l2:
      return avx2_extractor_for(depth);  // 16 bytes of a frame: wider registers gain nothing
    case Depth::l3:
      return extract_burst<Depth::l3>;
    case Depth::l4:
      return extract_burst<Depth::l4>;
    case Depth::full:
      break;
  }
  return extract_burst<Depth::full>;
}

#else

Extractor avx512_extractor_for(Depth) noexcept {
  return nullptr;
}

#endif

}  // namespace headrace::match
