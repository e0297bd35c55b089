// SPDX-License-Identifier: Apache-2.0
#include "match/fields/intrinsics.h"
#include "match/structures/classifier.h"
#include "match/structures/prefix_gather.h"

namespace headrace::match {

#if HEADRACE_HAS_X86_VECTORS
namespace {

constexpr size_t kLanes = 16;

/// Packets 16v..16v+15 of `active`, on their way down the trie.
struct Lanes {
  __mmask16 present;
  __m512i place;    ///< of the flow keys: octets from the first
  __m512i address;  ///< the four octets around the level that is at work, host order
  __m512i entry;
};

/// Loads the four octets of the addresses from `level` on, a multiple of four.
HEADRACE_AVX512 inline void load_address(const PrefixView& table, const FlowKey* burst,
                                         size_t level, Lanes& lanes) {
  const auto* fields = reinterpret_cast<const uint8_t*>(burst) + table.field_offset + level;
  const __m512i raw =
      _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), lanes.present, lanes.place, fields, 1);
  // From network order.
  const __m512i swap =
      _mm512_broadcast_i32x4(_mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
  lanes.address = _mm512_shuffle_epi8(raw, swap);
}

/// The octet of the address that decides at `level`.
HEADRACE_AVX512 inline __m512i octet(__m512i address, size_t level) {
  const __m128i shift = _mm_cvtsi64_si128(static_cast<int64_t>(8 * (3 - level % 4)));
  return _mm512_and_si512(_mm512_srl_epi32(address, shift), _mm512_set1_epi32(0xff));
}

template <size_t kRootOctets>
HEADRACE_AVX512 inline void begin(const PrefixView& table, const FlowKey* burst,
                                  const uint8_t* active, __mmask16 mine, Lanes& lanes) {
  const __m512i slot = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lanes.present, active));
  static_assert(sizeof(FlowKey) == 192);
  lanes.place = _mm512_add_epi32(_mm512_slli_epi32(slot, 7), _mm512_slli_epi32(slot, 6));
  load_address(table, burst, 0, lanes);
  const __m512i index = _mm512_srli_epi32(lanes.address, 32 - 8 * kRootOctets);
  lanes.entry = _mm512_mask_i32gather_epi32(_mm512_set1_epi32(static_cast<int>(kForeign)),
                                            static_cast<__mmask16>(lanes.present & mine), index,
                                            table.root, sizeof(uint32_t));
}

/// One node further, for packets that are at one; false if none is.
HEADRACE_AVX512 inline bool descend(const PrefixView& table, const FlowKey* burst, size_t level,
                                    Lanes& lanes) {
  const __mmask16 at_node = _mm512_movepi32_mask(lanes.entry);
  if (at_node == 0) return false;
  if (level % 4 == 0) load_address(table, burst, level, lanes);
  static_assert(sizeof(Node) == 256 * sizeof(uint32_t) && TrieNodePool::kLimit <= 1u << 23);
  // The shift drops the mark of a node.
  const __m512i index =
      _mm512_or_si512(_mm512_slli_epi32(lanes.entry, 8), octet(lanes.address, level));
  lanes.entry =
      _mm512_mask_i32gather_epi32(lanes.entry, at_node, index, table.nodes, sizeof(uint32_t));
  return true;
}

HEADRACE_AVX512 inline void finish(const PrefixView& table, const Lanes& lanes, uint32_t* results) {
  const __m512i otherwise = _mm512_set1_epi32(static_cast<int>(table.otherwise));
  const __m512i none =
      _mm512_set1_epi32(static_cast<int>(table.whole == kNone ? table.otherwise : table.whole));
  const __mmask16 is_none =
      _mm512_cmpeq_epi32_mask(lanes.entry, _mm512_set1_epi32(static_cast<int>(kNone)));
  const __mmask16 is_foreign =
      _mm512_cmpeq_epi32_mask(lanes.entry, _mm512_set1_epi32(static_cast<int>(kForeign)));
  const __m512i result = _mm512_mask_mov_epi32(_mm512_mask_mov_epi32(lanes.entry, is_none, none),
                                               is_foreign, otherwise);
  _mm512_mask_storeu_epi32(results, lanes.present, result);
}

template <size_t kRootOctets>
HEADRACE_AVX512 void lookup(const PrefixView& table, const FlowKey* burst,
                            std::span<const uint8_t> active, uint32_t* results) noexcept {
  static_assert(kBurst == 2 * kLanes);
  const size_t count = active.size();
  const uint32_t mine = with_exact_part(table, burst, active);
  const uint32_t present = count >= kBurst ? ~0u : (1u << count) - 1;
  Lanes low{.present = static_cast<__mmask16>(present), .place = {}, .address = {}, .entry = {}};
  Lanes high{.present = static_cast<__mmask16>(present >> kLanes),
             .place = {},
             .address = {},
             .entry = {}};
  begin<kRootOctets>(table, burst, active.data(), static_cast<__mmask16>(mine), low);
  begin<kRootOctets>(table, burst, active.data() + kLanes, static_cast<__mmask16>(mine >> kLanes),
                     high);
  bool more = true;
  for (size_t level = kRootOctets; more; ++level) {
    more = descend(table, burst, level, low);
    more = descend(table, burst, level, high) || more;
  }
  finish(table, low, results);
  finish(table, high, results + kLanes);
}

}  // namespace

template <size_t kRootOctets>
PrefixLookup prefix_lookup_avx512() noexcept {
  return lookup<kRootOctets>;
}

#else

template <size_t kRootOctets>
PrefixLookup prefix_lookup_avx512() noexcept {
  return nullptr;
}

#endif

template PrefixLookup prefix_lookup_avx512<2>() noexcept;
template PrefixLookup prefix_lookup_avx512<3>() noexcept;

}  // namespace headrace::match
