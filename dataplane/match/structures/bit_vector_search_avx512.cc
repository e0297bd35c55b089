// SPDX-License-Identifier: Apache-2.0
#include "match/fields/intrinsics.h"
#include "match/structures/bit_vector_search.h"

namespace headrace::match {

#if HEADRACE_HAS_X86_VECTORS

namespace {

constexpr size_t kLanes = 16;

/// The packets of a burst are the lanes of two registers, the places of a block those of one.
struct Wide {
  /// What a trie says further down for the packets that are at a node.
  HEADRACE_AVX512 static inline __m512i below(const BitVectorView& view, __m512i entry,
                                              __m512i octet) {
    static_assert(sizeof(Node) == 256 * sizeof(uint32_t) && TrieNodePool::kLimit <= 1u << 23);
    const __mmask16 at_node = _mm512_movepi32_mask(entry);
    // The shift drops the mark of a node.
    const __m512i index = _mm512_or_si512(_mm512_slli_epi32(entry, 8), octet);
    return _mm512_mask_i32gather_epi32(entry, at_node, index, view.nodes, sizeof(uint32_t));
  }

  HEADRACE_AVX512 static inline __m512i root(const BitVectorView& view, VectorField field,
                                             __mmask16 present, __m512i index) {
    return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), present, index,
                                       view.fields[field].root, sizeof(uint32_t));
  }

  HEADRACE_AVX512 static inline void classify_half(const BitVectorView& view, const FlowKey* burst,
                                                   const uint8_t* slots, __mmask16 present,
                                                   Classes& classes, size_t first) {
    static_assert(sizeof(FlowKey) == 192);
    const __m512i slot = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(present, slots));
    const __m512i place = _mm512_add_epi32(_mm512_slli_epi32(slot, 7), _mm512_slli_epi32(slot, 6));
    const auto* const fields = reinterpret_cast<const uint8_t*>(burst);
    const __m512i zero = _mm512_setzero_si512();
    const __m512i low = _mm512_set1_epi32(0xff);
    // From network order.
    const __m512i swap =
        _mm512_broadcast_i32x4(_mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
    const __m512i source = _mm512_shuffle_epi8(
        _mm512_mask_i32gather_epi32(zero, present, place, fields + 8 * kAddressWord, 1), swap);
    const __m512i destination = _mm512_shuffle_epi8(
        _mm512_mask_i32gather_epi32(zero, present, place, fields + 8 * kAddressWord + 4, 1), swap);
    const __m512i protocol = _mm512_and_si512(
        _mm512_mask_i32gather_epi32(zero, present, place, fields + 8 * kPortWord, 1), low);
    // The source port is the high half.
    const __m512i ports = _mm512_shuffle_epi8(
        _mm512_mask_i32gather_epi32(zero, present, place, fields + 8 * kPortWord + 4, 1), swap);
    const auto octet = [low](__m512i from, unsigned shift) HEADRACE_AVX512 {
      return _mm512_and_si512(_mm512_srli_epi32(from, shift), low);
    };
    __m512i of[kVectorFields] = {
        root(view, kSource, present, _mm512_srli_epi32(source, 16)),
        root(view, kDestination, present, _mm512_srli_epi32(destination, 16)),
        root(view, kSourcePort, present, _mm512_srli_epi32(ports, 24)),
        root(view, kDestinationPort, present, octet(ports, 8)),
        root(view, kProtocol, present, protocol)};
    of[kSource] = below(view, of[kSource], octet(source, 8));
    of[kDestination] = below(view, of[kDestination], octet(destination, 8));
    of[kSourcePort] = below(view, of[kSourcePort], octet(ports, 16));
    of[kDestinationPort] = below(view, of[kDestinationPort], octet(ports, 0));
    of[kSource] = below(view, of[kSource], octet(source, 0));
    of[kDestination] = below(view, of[kDestination], octet(destination, 0));
    for (size_t f = 0; f < kVectorFields; ++f) {
      _mm512_store_si512(&classes.of[f][first], of[f]);
    }
  }

  HEADRACE_AVX512 static inline void classify(const BitVectorView& view, const FlowKey* burst,
                                              const uint8_t* slots, size_t count,
                                              Classes& classes) {
    static_assert(kBurst == 2 * kLanes);
    const uint32_t present = count >= kBurst ? ~0u : (1u << count) - 1;
    classify_half(view, burst, slots, static_cast<__mmask16>(present), classes, 0);
    if (count <= kLanes) return;
    classify_half(view, burst, slots + kLanes, static_cast<__mmask16>(present >> kLanes), classes,
                  kLanes);
  }

  HEADRACE_AVX512 static inline uint32_t intersect(
      const std::array<const BitBlock*, kVectorFields>& vectors, BitBlock& common) {
    static_assert(kVectorFields == 5);
    constexpr int kAll = 0x80;  // a & b & c
    const __m512i three =
        _mm512_ternarylogic_epi64(_mm512_load_si512(vectors[0]), _mm512_load_si512(vectors[1]),
                                  _mm512_load_si512(vectors[2]), kAll);
    const __m512i bits = _mm512_ternarylogic_epi64(three, _mm512_load_si512(vectors[3]),
                                                   _mm512_load_si512(vectors[4]), kAll);
    _mm512_store_si512(&common, bits);
    return _mm512_test_epi64_mask(bits, bits);
  }

  HEADRACE_AVX512 static inline uint32_t equal_ports(const RuleGroup& group, uint32_t ports) {
    const __m256i asked =
        _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(ports)),
                         _mm256_load_si256(reinterpret_cast<const __m256i*>(group.port_masks)));
    return _mm256_cmpeq_epi32_mask(
        asked, _mm256_load_si256(reinterpret_cast<const __m256i*>(group.ports)));
  }
};

HEADRACE_AVX512 void search(const BitVectorView& view, const FlowKey* burst, const uint8_t* slots,
                            size_t count, Ranked* best) noexcept {
  search_vectors_by<Wide>(view, burst, slots, count, best);
}

}  // namespace

void search_vectors_avx512(const BitVectorView& view, const FlowKey* burst, const uint8_t* slots,
                           size_t count, Ranked* best) noexcept {
  search(view, burst, slots, count, best);
}

#else

void search_vectors_avx512(const BitVectorView& view, const FlowKey* burst, const uint8_t* slots,
                           size_t count, Ranked* best) noexcept {
  search_vectors(view, burst, slots, count, best);
}

#endif

}  // namespace headrace::match
