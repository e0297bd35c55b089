// SPDX-License-Identifier: Apache-2.0
#include "match/fields/intrinsics.h"
#include "match/structures/tree_search.h"

namespace headrace::match {

#if HEADRACE_HAS_X86_VECTORS

namespace {

/// Sixteen signatures are the lanes of a register.
struct Lanes {
  HEADRACE_AVX512 static inline uint64_t gather_bits(uint64_t from, uint64_t bits) {
    return _pext_u64(from, bits);
  }
  HEADRACE_AVX512 static inline int count_bits(uint64_t bits) { return __builtin_popcountll(bits); }

  HEADRACE_AVX512 static inline uint32_t candidates(const SignatureBlock& block,
                                                    uint16_t signature) {
    const __m256i wanted = _mm256_set1_epi16(static_cast<short>(signature));
    const auto* const values = reinterpret_cast<const __m256i*>(block.values);
    const auto* const masks = reinterpret_cast<const __m256i*>(block.masks);
    const __m256i asked = _mm256_and_si256(wanted, _mm256_load_si256(masks));
    return _mm256_cmpeq_epi16_mask(asked, _mm256_load_si256(values));
  }
};

template <size_t kWords>
HEADRACE_AVX512 void search(const TreeView& view, const FlowKey* burst, const uint8_t* slots,
                            size_t count, Ranked* best) noexcept {
  search_by<Lanes, kWords>(view, burst, slots, count, best);
}

}  // namespace

void search_trees_avx512(const TreeView& view, const FlowKey* burst, const uint8_t* slots,
                         size_t count, Ranked* best) noexcept {
  switch (view.words.size()) {
    case 2:
      return search<2>(view, burst, slots, count, best);
    case 3:
      return search<3>(view, burst, slots, count, best);
    case 5:
      return search<5>(view, burst, slots, count, best);
    default:
      return search<0>(view, burst, slots, count, best);
  }
}

#else

void search_trees_avx512(const TreeView& view, const FlowKey* burst, const uint8_t* slots,
                         size_t count, Ranked* best) noexcept {
  search_trees(view, burst, slots, count, best);
}

#endif

}  // namespace headrace::match
