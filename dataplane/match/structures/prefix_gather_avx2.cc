// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>

#include "match/fields/intrinsics.h"
#include "match/structures/classifier.h"
#include "match/structures/prefix_gather.h"

namespace headrace::match {

#if HEADRACE_HAS_X86_VECTORS
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kGroups = kBurst / kLanes;
static_assert(kGroups * kLanes == kBurst);

/// Packets 8g..8g+7 of a burst, on their way down the trie.
struct Lanes {
  __m256i place;    ///< of the flow keys: octets from the first
  __m256i address;  ///< the four octets around the level that is at work, host order
  __m256i entry;
};

HEADRACE_AVX2 inline __m256i splat(uint32_t value) {
  return _mm256_set1_epi32(static_cast<int>(value));
}

/// All bits of lane i set: bit i of `bits` is not.
HEADRACE_AVX2 inline __m256i lanes_without(uint32_t bits) {
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_cmpeq_epi32(_mm256_and_si256(splat(bits), bit), _mm256_setzero_si256());
}

/// Loads the four octets of the addresses from `level` on, a multiple of four.
HEADRACE_AVX2 inline void load_address(const PrefixView& table, const FlowKey* burst, size_t level,
                                       Lanes& lanes) {
  const auto* fields = reinterpret_cast<const uint8_t*>(burst) + table.field_offset + level;
  const __m256i raw = _mm256_i32gather_epi32(reinterpret_cast<const int*>(fields), lanes.place, 1);
  // From network order.
  const __m256i swap = _mm256_broadcastsi128_si256(
      _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
  lanes.address = _mm256_shuffle_epi8(raw, swap);
}

template <size_t kRootOctets>
HEADRACE_AVX2 inline Lanes begin(const PrefixView& table, const FlowKey* burst,
                                 const uint8_t* slots) {
  const __m256i slot =
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(slots)));
  static_assert(sizeof(FlowKey) == 192);
  Lanes lanes;
  lanes.place = _mm256_add_epi32(_mm256_slli_epi32(slot, 7), _mm256_slli_epi32(slot, 6));
  load_address(table, burst, 0, lanes);
  const __m256i index = _mm256_srli_epi32(lanes.address, 32 - 8 * kRootOctets);
  lanes.entry =
      _mm256_i32gather_epi32(reinterpret_cast<const int*>(table.root), index, sizeof(uint32_t));
  return lanes;
}

/// One node further, for packets that are at one; false if none is.
HEADRACE_AVX2 inline bool descend(const PrefixView& table, const FlowKey* burst, size_t level,
                                  Lanes& lanes) {
  static_assert(kNode == 1u << 31);
  if (_mm256_movemask_ps(_mm256_castsi256_ps(lanes.entry)) == 0) return false;
  if (level % 4 == 0) load_address(table, burst, level, lanes);
  static_assert(sizeof(Node) == 256 * sizeof(uint32_t) && TrieNodePool::kLimit <= 1u << 23);
  const __m128i shift = _mm_cvtsi64_si128(static_cast<int64_t>(8 * (3 - level % 4)));
  const __m256i octet = _mm256_and_si256(_mm256_srl_epi32(lanes.address, shift), splat(0xff));
  // The shift drops the mark of a node.
  const __m256i index = _mm256_or_si256(_mm256_slli_epi32(lanes.entry, 8), octet);
  lanes.entry = _mm256_mask_i32gather_epi32(lanes.entry, reinterpret_cast<const int*>(table.nodes),
                                            index, lanes.entry, sizeof(uint32_t));
  return true;
}

HEADRACE_AVX2 inline __m256i result_of(const PrefixView& table, __m256i entry) {
  const __m256i otherwise = splat(table.otherwise);
  const __m256i none = splat(table.whole == kNone ? table.otherwise : table.whole);
  const __m256i is_none = _mm256_cmpeq_epi32(entry, splat(kNone));
  const __m256i is_foreign = _mm256_cmpeq_epi32(entry, splat(kForeign));
  return _mm256_blendv_epi8(_mm256_blendv_epi8(entry, none, is_none), otherwise, is_foreign);
}

/// `slots`: 8 * groups of them.
template <size_t kRootOctets, size_t groups>
HEADRACE_AVX2 inline void look_up(const PrefixView& table, const FlowKey* burst,
                                  const uint8_t* slots, uint32_t mine, uint32_t* results) {
  std::array<Lanes, groups> lanes;
  for (size_t g = 0; g < groups; ++g) {
    lanes[g] = begin<kRootOctets>(table, burst, slots + g * kLanes);
  }
  if (mine != ~0u) {
    for (size_t g = 0; g < groups; ++g) {
      lanes[g].entry =
          _mm256_blendv_epi8(lanes[g].entry, splat(kForeign), lanes_without(mine >> (g * kLanes)));
    }
  }
  bool more = true;
  for (size_t level = kRootOctets; more; ++level) {
    more = false;
    for (size_t g = 0; g < groups; ++g) more = descend(table, burst, level, lanes[g]) || more;
  }
  for (size_t g = 0; g < groups; ++g) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(results + g * kLanes),
                        result_of(table, lanes[g].entry));
  }
}

template <size_t kRootOctets>
HEADRACE_AVX2 void lookup(const PrefixView& table, const FlowKey* burst,
                          std::span<const uint8_t> active, uint32_t* results) noexcept {
  const size_t count = active.size();
  const uint32_t mine = with_exact_part(table, burst, active);
  if (count == kBurst) {
    return look_up<kRootOctets, kGroups>(table, burst, active.data(), mine, results);
  }
  if (count == 0) return;
  // Filled up to whole groups with the first packet.
  std::array<uint8_t, kBurst> slots;
  std::array<uint32_t, kBurst> found;
  slots.fill(active[0]);
  std::memcpy(slots.data(), active.data(), count);
  for (size_t at = 0; at < count; at += kLanes) {
    look_up<kRootOctets, 1>(table, burst, slots.data() + at, mine >> at, found.data() + at);
  }
  std::memcpy(results, found.data(), count * sizeof found[0]);
}

}  // namespace

template <size_t kRootOctets>
PrefixLookup prefix_lookup_avx2() noexcept {
  return lookup<kRootOctets>;
}

#else

template <size_t kRootOctets>
PrefixLookup prefix_lookup_avx2() noexcept {
  return nullptr;
}

#endif

template PrefixLookup prefix_lookup_avx2<2>() noexcept;
template PrefixLookup prefix_lookup_avx2<3>() noexcept;

}  // namespace headrace::match
