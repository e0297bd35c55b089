// SPDX-License-Identifier: Apache-2.0
#include "match/fields/intrinsics.h"
#include "match/structures/tree_search.h"

namespace headrace::match {

#if HEADRACE_HAS_X86_VECTORS

namespace {

/// Eight rules of a leaf are the lanes of a register.
struct Wide {
  HEADRACE_AVX512 static inline uint64_t gather_bits(uint64_t from, uint64_t bits) {
    return _pext_u64(from, bits);
  }

  template <size_t kWords>
  HEADRACE_AVX512 static inline Ranked scan(const uint64_t* leaf, const uint8_t* words,
                                            size_t n_words, const FlowKey& packet, Ranked best) {
    const auto count = static_cast<unsigned>(leaf[0]);
    const uint64_t* const results = leaf + 1;
    const uint64_t* const rules = results + count;
    for (unsigned at = 0;;) {
      const unsigned lanes = count - at < 8 ? count - at : 8;
      auto equal = static_cast<__mmask8>(_bzhi_u32(0xff, lanes));
      for (size_t w = 0; w < (kWords != 0 ? kWords : n_words); ++w) {
        const uint64_t* const values = rules + 2 * w * count + at;
        const __m512i value = _mm512_maskz_loadu_epi64(equal, values);
        const __m512i mask = _mm512_maskz_loadu_epi64(equal, values + count);
        const __m512i wanted = _mm512_set1_epi64(static_cast<long long>(word(packet, words[w])));
        equal = _mm512_mask_cmpeq_epi64_mask(equal, _mm512_and_si512(wanted, mask), value);
      }
      const unsigned first = equal != 0 ? static_cast<unsigned>(__builtin_ctz(equal)) : 0;
      const Ranked result = __atomic_load_n(&results[at + first], __ATOMIC_RELAXED);
      const Ranked better = result > best ? result : best;
      best = equal != 0 ? better : best;
      at += 8;
      // Later rules are not better than a result, nor than the first of the next eight.
      if (at >= count) return best;
      if (equal != 0 || __atomic_load_n(&results[at], __ATOMIC_RELAXED) <= best) return best;
    }
  }
};

template <size_t kWords>
HEADRACE_AVX512 void search(const TreeView& view, const FlowKey* burst, const uint8_t* slots,
                            size_t count, Ranked* best) noexcept {
  search_by<Wide, kWords>(view, burst, slots, count, best);
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
