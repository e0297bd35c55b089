// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/forward.h"

#include <cstring>

#include "match/fields/intrinsics.h"
#include "packet/edit.h"
#include "pipeline/execute/edit_inline.h"

namespace headrace::pipeline {
namespace {

/// The members that decide whether rules are homogeneous, as one number.
inline uint32_t kind_of(const Rule& rule) {
  static_assert(offsetof(Rule, fast_path) == 0 && offsetof(Rule, next_table) == 1);
  static_assert(offsetof(Rule, edits) == 2 && offsetof(Rule, track_idle) == 3);
  uint32_t kind;
  std::memcpy(&kind, &rule, sizeof kind);
  return kind;
}

/// `edits`: RuleEdit bits of all the rules; `counted`: by rule.
template <uint8_t edits, bool counted>
Forwarded forward_portable(const ForwardBurst& burst, rte_mbuf** leaving) {
  Forwarded done;
  for (size_t k = 0; k < burst.active.size(); ++k) {
    const uint8_t i = burst.active[k];
    const Rule& rule = burst.all_rules[burst.rules[k]];
    if constexpr (counted) add(burst.counts[rule.counter], 1, burst.lengths[i]);
    rte_mbuf* packet = burst.packets[i];
    if constexpr (edits != 0) {
      auto* frame = rte_pktmbuf_mtod(packet, uint8_t*);
      if constexpr ((edits & kEditTtl) != 0) {
        if (ttl_expires(frame, burst.parsed[i])) [[unlikely]] {
          done.expired |= 1u << k;
          continue;
        }
        packet::dec_nw_ttl(packet, burst.parsed[i]);
      }
      if constexpr ((edits & kEditL2) != 0) rewrite_l2(frame, rule);
    }
    leaving[done.count++] = packet;
    done.bytes += burst.lengths[i];
  }
  return done;
}

#if HEADRACE_HAS_X86_VECTORS
constexpr size_t kIpv4At = sizeof(packet::EthernetHeader);
constexpr size_t kTtlAt = kIpv4At + offsetof(packet::Ipv4Header, ttl);
constexpr size_t kTtlWord = kTtlAt / 2;
constexpr size_t kChecksumWord = (kIpv4At + offsetof(packet::Ipv4Header, checksum)) / 2;
static_assert(kTtlAt % 2 == 0 && kChecksumWord < 16);

/// True if all packets are untagged IPv4.
inline bool all_plain_ipv4(const ForwardBurst& burst) {
  uint64_t difference = 0;
  for (const uint8_t i : burst.active) {
    const packet::ParsedPacket& parsed = burst.parsed[i];
    difference |= uint64_t{parsed.l3} ^ kIpv4At;
    difference |= uint64_t(~parsed.flags & packet::kIpv4);
  }
  return difference == 0;
}

/// For the words of a frame's first 32 bytes: what is added to each, above what the sum carries
/// around, and where.
struct TtlStep {
  alignas(32) uint16_t add[16]{};
  alignas(32) uint16_t limit[16]{};
};
constexpr TtlStep make_ttl_step() {
  TtlStep made;
  for (uint16_t& limit : made.limit) limit = 0xffff;
  made.add[kTtlWord] = 0xffff;
  made.add[kChecksumWord] = 1;
  made.limit[kChecksumWord] = 0xfffd;
  return made;
}
constexpr TtlStep kTtlStep = make_ttl_step();

/// Untagged IPv4 only. The TTL's word loses one and the checksum grows by as much, with the
/// end-around carry of RFC 1141: as a little-endian word the TTL is the low octet, and above 0.
/// `lasts`: no TTL expires. With AVX-512 it takes as long, so the level avx512 runs it, too.
template <bool l2, bool counted, bool lasts>
HEADRACE_AVX2 Forwarded forward_avx2(const ForwardBurst& burst, rte_mbuf** leaving) {
  const __m256i step = _mm256_load_si256(reinterpret_cast<const __m256i*>(kTtlStep.add));
  const __m256i limit = _mm256_load_si256(reinterpret_cast<const __m256i*>(kTtlStep.limit));
  const __m256i one = _mm256_set1_epi16(1);
  Forwarded done;
  for (size_t k = 0; k < burst.active.size(); ++k) {
    const uint8_t i = burst.active[k];
    const Rule& rule = burst.all_rules[burst.rules[k]];
    if constexpr (counted) add(burst.counts[rule.counter], 1, burst.lengths[i]);
    rte_mbuf* packet = burst.packets[i];
    auto* frame = rte_pktmbuf_mtod(packet, uint8_t*);
    if constexpr (!lasts) {
      if (frame[kTtlAt] <= 1) [[unlikely]] {
        done.expired |= 1u << k;
        continue;
      }
    }
    auto* head = reinterpret_cast<__m256i*>(frame);
    const __m256i now = _mm256_loadu_si256(head);
    const __m256i carry = _mm256_min_epu16(_mm256_subs_epu16(now, limit), one);
    __m256i next = _mm256_add_epi16(_mm256_add_epi16(now, step), carry);
    if constexpr (l2) {
      const __m256i value = _mm256_zextsi128_si256(
          _mm_load_si128(reinterpret_cast<const __m128i*>(rule.forward.l2_value)));
      const __m256i mask = _mm256_zextsi128_si256(
          _mm_load_si128(reinterpret_cast<const __m128i*>(rule.forward.l2_mask)));
      next = _mm256_or_si256(_mm256_andnot_si256(mask, next), value);
    }
    _mm256_storeu_si256(head, next);
    leaving[done.count++] = packet;
    done.bytes += burst.lengths[i];
  }
  return done;
}
#endif

/// True if all rules have the kind and the port of the first.
bool have_first_kind(const ForwardBurst& burst) {
  const Rule& first = burst.all_rules[burst.rules[0]];
  const uint32_t kind = kind_of(first);
  const PortHandle* out = first.forward.out;
  uint32_t kinds = 0;
  uintptr_t outs = 0;
  // Independent loads: the rules' cache misses overlap.
  for (size_t k = 0; k < burst.active.size(); ++k) {
    const Rule& rule = burst.all_rules[burst.rules[k]];
    kinds |= kind_of(rule) ^ kind;
    outs |= reinterpret_cast<uintptr_t>(rule.forward.out) ^ reinterpret_cast<uintptr_t>(out);
  }
  return kinds == 0 && outs == 0;
}

#if HEADRACE_HAS_X86_VECTORS
/// Its variant: kind and port lie in a rule's first 32 bytes, beside what may differ.
HEADRACE_AVX2 bool have_first_kind_avx2(const ForwardBurst& burst) {
  static_assert(offsetof(Rule, counter) == 4 && offsetof(Rule, body) == 8);
  static_assert(offsetof(Rule, forward) + offsetof(ForwardRule, out) == 16);
  const auto head_of = [&burst](size_t k) HEADRACE_AVX2 {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(&burst.all_rules[burst.rules[k]]));
  };
  const __m256i first = head_of(0);
  __m256i difference = _mm256_setzero_si256();
  for (size_t k = 1; k < burst.active.size(); ++k) {
    difference = _mm256_or_si256(difference, _mm256_xor_si256(first, head_of(k)));
  }
  const __m256i decisive = _mm256_setr_epi32(-1, 0, 0, 0, -1, -1, 0, 0);
  return _mm256_testz_si256(difference, decisive) != 0;
}
#endif

template <bool counted>
Forwarded forward(const ForwardBurst& burst, rte_mbuf** leaving) {
  const uint8_t edits = burst.all_rules[burst.rules[0]].edits;
#if HEADRACE_HAS_X86_VECTORS
  if ((edits & kEditTtl) != 0 && match::simd() >= match::Simd::avx2) {
    if (burst.burst_metadata.ttl_lasts) {
      return (edits & kEditL2) != 0 ? forward_avx2<true, counted, true>(burst, leaving)
                                    : forward_avx2<false, counted, true>(burst, leaving);
    }
    if (burst.burst_metadata.plain_ipv4 || all_plain_ipv4(burst)) {
      return (edits & kEditL2) != 0 ? forward_avx2<true, counted, false>(burst, leaving)
                                    : forward_avx2<false, counted, false>(burst, leaving);
    }
  }
#endif
  switch (edits) {
    case 0:
      return forward_portable<0, counted>(burst, leaving);
    case kEditL2:
      return forward_portable<kEditL2, counted>(burst, leaving);
    case kEditTtl:
      return forward_portable<kEditTtl, counted>(burst, leaving);
    default:
      return forward_portable<kEditTtl | kEditL2, counted>(burst, leaving);
  }
}

}  // namespace

bool is_homogeneous(const ForwardBurst& burst) noexcept {
  const Rule& first = burst.all_rules[burst.rules[0]];
  if (first.fast_path != FastPathClass::forward || first.track_idle != 0 ||
      (first.edits & kEditTunnel) != 0) {
    return false;
  }
#if HEADRACE_HAS_X86_VECTORS
  if (match::simd() >= match::Simd::avx2) return have_first_kind_avx2(burst);
#endif
  return have_first_kind(burst);
}

Forwarded forward_homogeneous(const ForwardBurst& burst, rte_mbuf** leaving) noexcept {
  return burst.counts != nullptr ? forward<true>(burst, leaving) : forward<false>(burst, leaving);
}

}  // namespace headrace::pipeline
