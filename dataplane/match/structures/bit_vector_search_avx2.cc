// SPDX-License-Identifier: Apache-2.0
#include "match/fields/intrinsics.h"
#include "match/structures/bit_vector_search.h"

namespace headrace::match {

#if HEADRACE_HAS_X86_VECTORS

namespace {

constexpr size_t kLanes = 8;

/// The packets of a burst are the lanes of four registers, the places of a block those of two.
struct Narrow {
  /// What a trie says further down for the packets that are at a node.
  HEADRACE_AVX2 static inline __m256i below(const BitVectorView& view, __m256i entry,
                                            __m256i octet) {
    static_assert(sizeof(Node) == 256 * sizeof(uint32_t) && TrieNodePool::kLimit <= 1u << 23);
    // The shift drops the mark of a node, which is also what says that a lane is gathered.
    const __m256i index = _mm256_or_si256(_mm256_slli_epi32(entry, 8), octet);
    return _mm256_mask_i32gather_epi32(entry, reinterpret_cast<const int*>(view.nodes), index,
                                       entry, sizeof(uint32_t));
  }

  HEADRACE_AVX2 static inline __m256i gather(const void* from, __m256i index, __m256i present) {
    return _mm256_mask_i32gather_epi32(_mm256_setzero_si256(), static_cast<const int*>(from), index,
                                       present, sizeof(uint32_t));
  }

  HEADRACE_AVX2 static inline void classify_quarter(const BitVectorView& view, const FlowKey* burst,
                                                    const uint8_t* slots, size_t count,
                                                    Classes& classes, size_t first) {
    static_assert(sizeof(FlowKey) == 48 * sizeof(uint32_t));
    alignas(32) uint32_t chosen[kLanes] = {};
    for (size_t i = 0; i < count; ++i) chosen[i] = slots[i];
    const __m256i slot = _mm256_load_si256(reinterpret_cast<const __m256i*>(chosen));
    const __m256i present = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                                               _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256i place = _mm256_add_epi32(_mm256_slli_epi32(slot, 5), _mm256_slli_epi32(slot, 4));
    const auto* const fields = reinterpret_cast<const uint8_t*>(burst);
    const __m256i low = _mm256_set1_epi32(0xff);
    // From network order.
    const __m256i swap = _mm256_broadcastsi128_si256(
        _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
    const __m256i source =
        _mm256_shuffle_epi8(gather(fields + 8 * kAddressWord, place, present), swap);
    const __m256i destination =
        _mm256_shuffle_epi8(gather(fields + 8 * kAddressWord + 4, place, present), swap);
    const __m256i protocol = _mm256_and_si256(gather(fields + 8 * kPortWord, place, present), low);
    // The source port is the high half.
    const __m256i ports =
        _mm256_shuffle_epi8(gather(fields + 8 * kPortWord + 4, place, present), swap);
    const auto root = [&view, present](VectorField field, __m256i index)
                          HEADRACE_AVX2 { return gather(view.fields[field].root, index, present); };
    const auto octet = [low](__m256i from, int shift) HEADRACE_AVX2 {
      return _mm256_and_si256(_mm256_srli_epi32(from, shift), low);
    };
    __m256i of[kVectorFields] = {root(kSource, _mm256_srli_epi32(source, 16)),
                                 root(kDestination, _mm256_srli_epi32(destination, 16)),
                                 root(kSourcePort, _mm256_srli_epi32(ports, 24)),
                                 root(kDestinationPort, octet(ports, 8)),
                                 root(kProtocol, protocol)};
    of[kSource] = below(view, of[kSource], octet(source, 8));
    of[kDestination] = below(view, of[kDestination], octet(destination, 8));
    of[kSourcePort] = below(view, of[kSourcePort], octet(ports, 16));
    of[kDestinationPort] = below(view, of[kDestinationPort], octet(ports, 0));
    of[kSource] = below(view, of[kSource], octet(source, 0));
    of[kDestination] = below(view, of[kDestination], octet(destination, 0));
    for (size_t f = 0; f < kVectorFields; ++f) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(&classes.of[f][first]), of[f]);
    }
  }

  HEADRACE_AVX2 static inline void classify(const BitVectorView& view, const FlowKey* burst,
                                            const uint8_t* slots, size_t count, Classes& classes) {
    for (size_t first = 0; first < count; first += kLanes) {
      const size_t lanes = count - first < kLanes ? count - first : kLanes;
      classify_quarter(view, burst, slots + first, lanes, classes, first);
    }
  }

  HEADRACE_AVX2 static inline uint32_t intersect(
      const std::array<const BitBlock*, kVectorFields>& vectors, BitBlock& common) {
    uint32_t words = 0;
    for (size_t half = 0; half < 2; ++half) {
      const auto load = [half](const BitBlock* from) HEADRACE_AVX2 {
        return _mm256_load_si256(reinterpret_cast<const __m256i*>(from) + half);
      };
      __m256i bits = load(vectors[0]);
      for (size_t f = 1; f < kVectorFields; ++f) bits = _mm256_and_si256(bits, load(vectors[f]));
      _mm256_store_si256(reinterpret_cast<__m256i*>(&common) + half, bits);
      const __m256i none = _mm256_cmpeq_epi64(bits, _mm256_setzero_si256());
      const auto empty = static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(none)));
      words |= (empty ^ 0xf) << 4 * half;
    }
    return words;
  }

  HEADRACE_AVX2 static inline uint32_t equal_ports(const RuleGroup& group, uint32_t ports) {
    const auto* const masks = reinterpret_cast<const __m256i*>(group.port_masks);
    const auto* const values = reinterpret_cast<const __m256i*>(group.ports);
    const __m256i asked =
        _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(ports)), _mm256_load_si256(masks));
    const __m256i equal = _mm256_cmpeq_epi32(asked, _mm256_load_si256(values));
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(equal)));
  }
};

HEADRACE_AVX2 void search(const BitVectorView& view, const FlowKey* burst, const uint8_t* slots,
                          size_t count, Ranked* best) noexcept {
  search_vectors_by<Narrow>(view, burst, slots, count, best);
}

}  // namespace

void search_vectors_avx2(const BitVectorView& view, const FlowKey* burst, const uint8_t* slots,
                         size_t count, Ranked* best) noexcept {
  search(view, burst, slots, count, best);
}

#else

void search_vectors_avx2(const BitVectorView& view, const FlowKey* burst, const uint8_t* slots,
                         size_t count, Ranked* best) noexcept {
  search_vectors(view, burst, slots, count, best);
}

#endif

}  // namespace headrace::match
