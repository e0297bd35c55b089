// SPDX-License-Identifier: Apache-2.0
#include <rte_prefetch.h>

#include "match/fields/extract_layout.h"
#include "match/fields/extract_vector.h"

namespace headrace::match {

#if HEADRACE_HAS_X86_VECTORS
namespace {

using namespace vector;
using packet::load_raw16;
using packet::load_raw32;
using packet::load_raw64;
using packet::ParsedPacket;

/// Words 0 and 1, from the frame's first 16 bytes: MAC addresses, and the type of untagged frames
/// or the VID of tagged ones.
struct Ethernet {
  Block index = all_of(kNothing);
  Block keep = all_of(0xff);  ///< for tagged frames
  Block add{};                ///< for tagged frames: OFPVID_PRESENT and, if it is fixed, the type
};

constexpr Ethernet make_ethernet(Kind kind) {
  static_assert(offsetof(FlowKey, eth_src) == 8 && offsetof(FlowKey, vlan_vid) == 14);
  Ethernet made;
  for (uint8_t i = 0; i < 6; ++i) {
    made.index.bytes[offsetof(FlowKey, eth_dst) + i] = i;
    made.index.bytes[offsetof(FlowKey, eth_src) + i] = 6 + i;
  }
  constexpr size_t kType = offsetof(FlowKey, eth_type);
  constexpr size_t kVid = offsetof(FlowKey, vlan_vid);
  if (kind == Kind::tagged || kind == Kind::tagged_ipv4) {
    made.index.bytes[kVid] = kEthernet;
    made.index.bytes[kVid + 1] = kEthernet + 1;
    made.keep.bytes[kVid] = 0x0f;
    made.add.bytes[kVid] = 0x10;
    if (kind == Kind::tagged_ipv4) put16(made.add, kType, packet::kTypeIpv4);
  } else {
    made.index.bytes[kType] = kEthernet - 2;
    made.index.bytes[kType + 1] = kEthernet - 1;
  }
  return made;
}

template <Kind kind>
inline constexpr Ethernet kEthernetOf = make_ethernet(kind);

/// The lower half of word 4 of IPv4 frames, from the 16 bytes behind the Ethernet header: protocol,
/// DSCP, ECN and the tag's PCP. DSCP is shifted by 2 and PCP by 5 to the right, which is done as a
/// multiplication into the next octet: each pair of bytes becomes the 16-bit sum of their products.
struct Ip {
  Block index = all_of(kNothing);
  Block keep{};
  Block factor{};
};

constexpr Ip make_ip(Kind kind) {
  constexpr size_t kWord = offsetof(FlowKey, ip_proto);
  static_assert(offsetof(FlowKey, ip_dscp) == kWord + 1 && offsetof(FlowKey, ip_ecn) == kWord + 2);
  static_assert(offsetof(FlowKey, vlan_pcp) == kWord + 3);
  Ip made;
  const auto take = [&made](size_t to, size_t from, uint8_t keep, uint8_t factor) {
    made.index.bytes[to] = static_cast<uint8_t>(from);
    made.keep.bytes[to] = keep;
    made.factor.bytes[to] = factor;
  };
  const bool tagged = kind == Kind::tagged_ipv4;
  const size_t ip = tagged ? kTag : 0;
  take(0, ip + offsetof(packet::Ipv4Header, proto), 0xff, 1);
  take(1, ip + offsetof(packet::Ipv4Header, tos), 0xfc, 256 >> 2);
  take(2, ip + offsetof(packet::Ipv4Header, tos), 0x03, 1);
  if (tagged) take(3, 0, 0xe0, 256 >> 5);
  return made;
}

template <Kind kind>
inline constexpr Ip kIpOf = make_ip(kind);

/// The first line of FlowKey.
struct Line {
  __m256i low;   ///< words 0..3
  __m256i high;  ///< words 4..7
};

HEADRACE_AVX2 inline void store(FlowKey& values, const Line& line) {
  auto* to = reinterpret_cast<__m256i*>(&values);
  _mm256_store_si256(to, line.low);
  _mm256_store_si256(to + 1, line.high);
}

/// Zeroes words 8..23.
HEADRACE_AVX2 inline void zero_rest(FlowKey& values) {
  auto* to = reinterpret_cast<__m256i*>(&values);
  for (size_t i = 2; i < sizeof values / sizeof *to; ++i) {
    _mm256_store_si256(to + i, _mm256_setzero_si256());
  }
}

/// The frame's first 16 bytes, and the 16 behind the Ethernet header.
struct Loaded {
  __m128i ethernet;
  __m128i behind;
};
static_assert(kEthernet + 16 <= kLoaded);

HEADRACE_AVX2 inline Loaded load_frame(const uint8_t* frame) {
  return {.ethernet = load_16(frame), .behind = load_16(frame + kEthernet)};
}

/// Words 0 and 1. The type of Kind::tagged is the caller's to add.
template <Kind kind>
HEADRACE_AVX2 inline __m128i ethernet_words(__m128i frame) {
  constexpr const Ethernet& layout = kEthernetOf<kind>;
  const __m128i words = _mm_shuffle_epi8(frame, load(layout.index));
  if constexpr (!Place<kind>::tagged) return words;
  return _mm_or_si128(_mm_and_si128(words, load(layout.keep)), load(layout.add));
}

/// True if the bytes that make a frame one of this kind are there.
template <Kind kind>
inline bool is_kind(const uint8_t* frame) {
  using At = Place<kind>;
  if constexpr (At::tagged) {
    if (load_raw16(frame + kEthernet - 2) != packet::kTypeVlan) return false;
  }
  const uint16_t type = load_raw16(frame + At::l2_end - 2);
  if constexpr (At::v6) {
    return type == packet::kTypeIpv6 && frame[At::l2_end] >> 4 == 6;
  } else {
    // Version and length, and that it is no fragment.
    constexpr uint64_t kMask = uint64_t{0xff} | uint64_t{packet::swap16(0x3fff)} << 48;
    static_assert(offsetof(packet::Ipv4Header, fragment) == 6);
    return type == packet::kTypeIpv4 && (load_raw64(frame + At::l2_end) & kMask) == 0x45;
  }
}

/// The lower half of word 4 of an IPv6 frame.
inline uint32_t ipv6_word(const uint8_t* frame, uint8_t proto) {
  const auto traffic_class = static_cast<uint8_t>(packet::load_be16(frame + kEthernet) >> 4);
  return uint32_t{proto} | uint32_t{traffic_class} >> 2 << 8 | (uint32_t{traffic_class} & 3) << 16;
}

/// Extracts a frame of this kind; false, and nothing written, if it is none. `ports`: word 2, and 0
/// behind it. `line`: the first of the values.
template <Kind kind, Depth depth>
HEADRACE_AVX2 inline bool extract_ip(const Loaded& loaded, const uint8_t* frame, size_t size,
                                     __m128i ports, FlowKey& values, ParsedPacket& parsed,
                                     Line& line) {
  using At = Place<kind>;
  if (!is_kind<kind>(frame) || !long_enough<kind>(frame, size)) return false;
  const uint8_t proto = frame[At::proto];
  const unsigned l4 = depth >= Depth::l4 ? kL4[proto] : 0;
  if (depth == Depth::full && (l4 & kL4Special) != 0) return false;
  __m128i addresses = ports;
  __m128i ip;
  if constexpr (At::v6) {
    ip = _mm_cvtsi32_si128(static_cast<int>(ipv6_word(frame, proto)));
  } else {
    const uint8_t* at = frame + At::l2_end + offsetof(packet::Ipv4Header, src);
    addresses = _mm_castpd_si128(
        _mm_loadh_pd(_mm_castsi128_pd(ports), reinterpret_cast<const double*>(at)));
    constexpr const Ip& layout = kIpOf<kind>;
    const __m128i octets = _mm_shuffle_epi8(loaded.behind, load(layout.index));
    ip = _mm_maddubs_epi16(_mm_and_si128(octets, load(layout.keep)), load(layout.factor));
  }
  if ((l4 & kL4Ports) != 0) [[likely]] {
    ip = _mm_insert_epi32(ip, static_cast<int>(load_raw32(frame + At::l4)), 1);
  }
  line.low = _mm256_inserti128_si256(_mm256_castsi128_si256(ethernet_words<kind>(loaded.ethernet)),
                                     addresses, 1);
  line.high = _mm256_zextsi128_si256(ip);
  store(values, line);
  if constexpr (depth == Depth::full) {
    zero_rest(values);
    fill_rest<kind>(frame, proto, values);
  }
  store_parsed<kind>(parsed, frame, (l4 & kL4Known) != 0);
  return true;
}

/// Depth l2: any frame with at most one tag.
HEADRACE_AVX2 inline bool extract_l2(__m128i first, const uint8_t* frame, __m128i ports,
                                     FlowKey& values, ParsedPacket& parsed, Line& line) {
  __m128i words;
  if (!packet::is_vlan_type(load_raw16(frame + kEthernet - 2))) [[likely]] {
    words = ethernet_words<Kind::plain>(first);
    store_parsed<Kind::plain>(parsed, frame);
  } else {
    const uint16_t type = load_raw16(frame + kEthernet + kTag - 2);
    if (packet::is_vlan_type(type)) return false;
    constexpr int kType = offsetof(FlowKey, eth_type) / 2;
    words = _mm_insert_epi16(ethernet_words<Kind::tagged>(first), type, kType);
    store_parsed<Kind::tagged>(parsed, frame);
  }
  line.low = _mm256_inserti128_si256(_mm256_castsi128_si256(words), ports, 1);
  line.high = _mm256_setzero_si256();
  store(values, line);
  return true;
}

/// A burst's metadata in the making.
struct Gathered {
  Line all;       ///< bits that are set in the first lines of all packets
  Line any;       ///< in one of them
  __m128i least;  ///< octet by octet behind Ethernet, of the frames that are plain IPv4
  bool plain;     ///< all are
};

HEADRACE_AVX2 inline void note(Gathered& gathered, const Line& line) {
  gathered.all.low = _mm256_and_si256(gathered.all.low, line.low);
  gathered.all.high = _mm256_and_si256(gathered.all.high, line.high);
  gathered.any.low = _mm256_or_si256(gathered.any.low, line.low);
  gathered.any.high = _mm256_or_si256(gathered.any.high, line.high);
}

/// Bit i set: words i of both are the same.
HEADRACE_AVX2 inline WordSet equal_words(__m256i a, __m256i b) {
  const __m256i equal = _mm256_cmpeq_epi64(a, b);
  return static_cast<WordSet>(_mm256_movemask_pd(_mm256_castsi256_pd(equal)));
}

HEADRACE_AVX2 inline BurstMetadata metadata_of(const Gathered& gathered) {
  constexpr size_t kTtl = kTtlAt - kEthernet;
  const auto ttl = static_cast<uint8_t>(_mm_extract_epi8(gathered.least, kTtl));
  const WordSet same = equal_words(gathered.all.low, gathered.any.low) |
                       equal_words(gathered.all.high, gathered.any.high) << 4;
  return {.differ = ~same, .plain_ipv4 = gathered.plain, .ttl_lasts = gathered.plain && ttl > 1};
}

template <Depth depth>
HEADRACE_AVX2 BurstMetadata extract_burst(std::span<rte_mbuf* const> packets, BurstPort port,
                                          FlowKey* values, ParsedPacket* parsed) noexcept {
  const __m128i ports = _mm_cvtsi64_si128(static_cast<int64_t>(
      uint64_t{packet::swap32(port.in_port)} | uint64_t{packet::swap32(port.in_phy_port)} << 32));
  const __m256i ones = _mm256_set1_epi64x(-1);
  const __m256i zero = _mm256_setzero_si256();
  Gathered gathered{.all = {ones, ones},
                    .any = {zero, zero},
                    .least = _mm256_castsi256_si128(ones),
                    .plain = depth != Depth::l2};
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
      const Loaded loaded = load_frame(frame);
      Line line;
      if constexpr (depth == Depth::l2) {
        if (extract_l2(loaded.ethernet, frame, ports, to, parsed[i], line)) [[likely]] {
          note(gathered, line);
          continue;
        }
      } else {
        if (extract_ip<Kind::ipv4, depth>(loaded, frame, size, ports, to, parsed[i], line))
            [[likely]] {
          note(gathered, line);
          gathered.least = _mm_min_epu8(gathered.least, loaded.behind);
          continue;
        }
        if (extract_ip<Kind::tagged_ipv4, depth>(loaded, frame, size, ports, to, parsed[i], line) ||
            extract_ip<Kind::ipv6, depth>(loaded, frame, size, ports, to, parsed[i], line)) {
          note(gathered, line);
          gathered.plain = false;
          continue;
        }
      }
    }
    gathered.plain = false;
    store(to, {.low = _mm256_inserti128_si256(zero, ports, 1), .high = zero});
    if constexpr (depth == Depth::full) zero_rest(to);  // the tunnel's words, too
    extract_any(depth, packet, to, parsed[i]);
    const auto* made = reinterpret_cast<const __m256i*>(&to);
    note(gathered, {.low = _mm256_load_si256(made), .high = _mm256_load_si256(made + 1)});
  }
  return metadata_of(gathered);
}

}  // namespace

Extractor avx2_extractor_for(Depth depth) noexcept {
  switch (depth) {
    case Depth::l2:
      return extract_burst<Depth::l2>;
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

Extractor avx2_extractor_for(Depth) noexcept {
  return nullptr;
}

#endif

}  // namespace headrace::match
