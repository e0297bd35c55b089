// SPDX-License-Identifier: Apache-2.0
// The look-up of bit vectors, for the source files of its variants.
//
// All packets of a burst go through each pass together, so that their misses overlap: from values
// of the five fields to classes, from classes to the first place whose bit is set in the vectors of
// all five, from the place to its group of rules, which is compared in full.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "match/fields/fields.h"
#include "match/structures/block.h"
#include "match/structures/classifier.h"
#include "match/structures/prefix_classes.h"
#include "match/structures/ranked.h"

namespace headrace::match {

/// The fields that have vectors, by how they are numbered here. Words of FlowKey: the addresses
/// are one, protocol and ports are halves of the next.
enum VectorField : uint8_t { kSource, kDestination, kSourcePort, kDestinationPort, kProtocol };
inline constexpr size_t kVectorFields = 5;
inline constexpr size_t kAddressWord = offsetof(FlowKey, ipv4_src) / 8;
inline constexpr size_t kPortWord = offsetof(FlowKey, ip_proto) / 8;
static_assert(offsetof(FlowKey, ipv4_dst) == 8 * kAddressWord + 4);
static_assert(offsetof(FlowKey, l4_src) == 8 * kPortWord + 4);

/// The bits of 512 places: one register of AVX-512.
struct alignas(kCacheLine) BitBlock {
  static constexpr size_t kWords = 8;
  static constexpr size_t kPlaces = kWords * 64;

  uint64_t words[kWords];
};
/// Blocks of a table, at most: a bit of a vector's summary for each.
inline constexpr size_t kMostBlocks = 64;

/// Rules of one priority that ask for the same but ports: a range of ports that was expanded.
struct alignas(kCacheLine) RuleGroup {
  static constexpr size_t kRules = 8;

  uint64_t addresses{0};  ///< what they ask of kAddressWord
  uint64_t address_mask{0};
  uint32_t protocol{0};  ///< what they ask of the first half of kPortWord
  uint32_t protocol_mask{0};
  uint16_t priority{0};
  uint16_t further{0};  ///< groups behind this in memory, with more rules of it
  uint32_t count{0};    ///< rules of this group
  uint32_t indices[kRules]{};
  /// What each asks of the second half. Where there is no rule no packet's ports are equal.
  uint32_t ports[kRules]{1, 1, 1, 1, 1, 1, 1, 1};
  uint32_t port_masks[kRules]{};
};
static_assert(sizeof(RuleGroup) == 2 * kCacheLine);

/// A table as workers see it. The vector of class c of a field has its block b at
/// blocks[b * capacity + c].
struct BitVectorView {
  struct Field {
    const uint32_t* root;
    const BitBlock* blocks;
    const uint64_t* summaries;  ///< by class: the blocks that have a bit of it
    size_t capacity;
  };
  std::array<Field, kVectorFields> fields;
  const Node* nodes;
  const RuleGroup* const* groups;  ///< by place; behind the last place one that nothing matches
  size_t ordered;  ///< blocks whose places are by descending priority, the first ones
  size_t blocks;   ///< all that are in use
  size_t none;     ///< the place behind the last
};

/// A variant of search_vectors().
using VectorSearch = void(const BitVectorView& view, const FlowKey* burst, const uint8_t* slots,
                          size_t count, Ranked* best) noexcept;

/// Worker: best[k] becomes the best result for burst[slots[k]], 0 where there is none. `count`
/// packets, at most a burst.
void search_vectors(const BitVectorView& view, const FlowKey* burst, const uint8_t* slots,
                    size_t count, Ranked* best) noexcept;
/// Its variants, where simd() allows them.
void search_vectors_avx2(const BitVectorView& view, const FlowKey* burst, const uint8_t* slots,
                         size_t count, Ranked* best) noexcept;
void search_vectors_avx512(const BitVectorView& view, const FlowKey* burst, const uint8_t* slots,
                           size_t count, Ranked* best) noexcept;

/// By field and packet.
struct alignas(kCacheLine) Classes {
  uint32_t of[kVectorFields][kBurst];
};

/// The blocks in which all five vectors of packet k have bits.
[[gnu::always_inline]] inline uint64_t common_blocks(const BitVectorView& view,
                                                     const Classes& classes, size_t k) {
  uint64_t common = ~uint64_t{0};
  for (size_t f = 0; f < kVectorFields; ++f) {
    common &= __atomic_load_n(&view.fields[f].summaries[classes.of[f][k]], __ATOMIC_RELAXED);
  }
  return common;
}

/// Block `b` of the five vectors of packet k.
[[gnu::always_inline]] inline std::array<const BitBlock*, kVectorFields> vectors_of(
    const BitVectorView& view, const Classes& classes, size_t k, size_t b) {
  std::array<const BitBlock*, kVectorFields> vectors;
  for (size_t f = 0; f < kVectorFields; ++f) {
    const BitVectorView::Field& field = view.fields[f];
    vectors[f] = field.blocks + b * field.capacity + classes.of[f][k];
  }
  return vectors;
}

/// The result of the group's rule that matches, 0 if none does.
template <typename Ops>
[[gnu::always_inline]] inline Ranked hit_in(const RuleGroup* group, const FlowKey& packet) {
  const uint64_t ports = word(packet, kPortWord);
  const auto protocol = static_cast<uint32_t>(ports);
  const uint64_t difference =
      ((word(packet, kAddressWord) & group->address_mask) ^ group->addresses) |
      ((protocol & group->protocol_mask) ^ group->protocol);
  const auto pair = static_cast<uint32_t>(ports >> 32);
  const size_t further = difference == 0 ? group->further : 0;
  for (size_t i = 0;; ++i) {
    const uint32_t equal = Ops::equal_ports(group[i], pair);
    // Lane 8, of none, becomes 0.
    const auto lane = static_cast<size_t>(std::countr_zero(equal | 0x100)) % RuleGroup::kRules;
    const uint32_t index = __atomic_load_n(&group[i].indices[lane], __ATOMIC_RELAXED);
    const bool hit = (equal != 0) & (difference == 0);
    if (hit | (i == further)) return hit ? ranked(group->priority, index) : 0;
  }
}

/// The best result of places of one block; `first`: of the first place with a hit.
template <typename Ops>
[[gnu::always_inline]] inline Ranked best_of_block(const BitVectorView& view,
                                                   const BitBlock& common, size_t b,
                                                   const FlowKey& packet, bool first, Ranked best) {
  for (size_t w = 0; w < BitBlock::kWords; ++w) {
    for (uint64_t left = common.words[w]; left != 0; left &= left - 1) {
      const size_t place =
          (b * BitBlock::kWords + w) * 64 + static_cast<size_t>(std::countr_zero(left));
      const RuleGroup* const group = __atomic_load_n(&view.groups[place], __ATOMIC_ACQUIRE);
      const Ranked result = hit_in<Ops>(group, packet);
      if (result <= best) continue;
      best = result;
      if (first) return best;
    }
  }
  return best;
}

/// The best result among the places of ordered blocks behind `place`.
template <typename Ops>
[[gnu::always_inline]] inline Ranked best_behind(const BitVectorView& view, const Classes& classes,
                                                 size_t k, size_t place, const FlowKey& packet) {
  BitBlock common;
  const size_t from = (place + 1) / BitBlock::kPlaces;
  for (size_t b = from; b < view.ordered; ++b) {
    if (Ops::intersect(vectors_of(view, classes, k, b), common) == 0) continue;
    for (size_t w = 0; b == from && w < BitBlock::kWords; ++w) {
      const size_t start = (b * BitBlock::kWords + w) * 64;
      if (start + 64 <= place + 1) {
        common.words[w] = 0;
      } else if (start <= place) {
        common.words[w] &= ~uint64_t{0} << (place + 1 - start);
      }
    }
    const Ranked best = best_of_block<Ops>(view, common, b, packet, true, 0);
    if (best != 0) return best;
  }
  return 0;
}

/// The first place of ordered blocks that is in all vectors of packet k, by looking at all blocks,
/// of which there are kFew at most; view.none if there is none.
inline constexpr size_t kFew = 4;
template <typename Ops>
[[gnu::always_inline]] inline size_t first_of_few(const BitVectorView& view, const Classes& classes,
                                                  size_t k) {
  BitBlock common[kFew];
  uint32_t words = 0;
  for (size_t b = 0; b < view.ordered; ++b) {
    words |= Ops::intersect(vectors_of(view, classes, k, b), common[b]) << b * BitBlock::kWords;
  }
  if (words == 0) return view.none;
  const auto w = static_cast<size_t>(std::countr_zero(words));
  return 64 * w + static_cast<size_t>(
                      std::countr_zero(common[w / BitBlock::kWords].words[w % BitBlock::kWords]));
}

/// The block of packet k's vectors to look at next; any where none is left.
[[gnu::always_inline]] inline size_t next_of(uint64_t blocks) {
  return blocks != 0 ? static_cast<size_t>(std::countr_zero(blocks)) : 0;
}

/// The same for many blocks, for all packets of a burst: one block of each in turn, while the
/// caches fetch the next.
template <typename Ops>
[[gnu::always_inline]] inline void first_of_many(const BitVectorView& view, const Classes& classes,
                                                 size_t count, size_t* places) {
  const uint64_t ordered = (uint64_t{1} << view.ordered) - 1;
  uint64_t blocks[kBurst];  // that may have such a place
  uint8_t going[kBurst];
  size_t left = 0;
  for (size_t k = 0; k < count; ++k) {
    blocks[k] = common_blocks(view, classes, k) & ordered;
    places[k] = view.none;
    for (const BitBlock* each : vectors_of(view, classes, k, next_of(blocks[k]))) {
      __builtin_prefetch(each);
    }
    going[left] = static_cast<uint8_t>(k);
    left += blocks[k] != 0 ? 1 : 0;
  }
  while (left != 0) {
    size_t on = 0;
    for (size_t i = 0; i < left; ++i) {
      const uint8_t k = going[i];
      const size_t b = next_of(blocks[k]);
      blocks[k] &= blocks[k] - 1;
      BitBlock common;
      const uint32_t words = Ops::intersect(vectors_of(view, classes, k, b), common);
      // Lane 8, of none, becomes 0.
      const auto w = static_cast<size_t>(std::countr_zero(words | 0x100)) % BitBlock::kWords;
      const auto bit = static_cast<size_t>(std::countr_zero(common.words[w])) % 64;
      const size_t place = (b * BitBlock::kWords + w) * 64 + bit;
      places[k] = words != 0 ? place : view.none;
      __builtin_prefetch(&view.groups[places[k]]);
      for (const BitBlock* each : vectors_of(view, classes, k, next_of(blocks[k]))) {
        __builtin_prefetch(each);
      }
      going[on] = k;
      on += static_cast<size_t>((words == 0) & (blocks[k] != 0));
    }
    left = on;
  }
}

/// `Ops` are a variant's classify(), intersect() and equal_ports(). Inlined, so that it is of the
/// variant's target.
template <typename Ops>
[[gnu::always_inline]] inline void search_vectors_by(const BitVectorView& view,
                                                     const FlowKey* burst, const uint8_t* slots,
                                                     size_t count, Ranked* best) noexcept {
  Classes classes;
  Ops::classify(view, burst, slots, count, classes);
  size_t places[kBurst];
  const RuleGroup* groups[kBurst];
  if (view.ordered <= kFew) {
    for (size_t k = 0; k < count; ++k) places[k] = first_of_few<Ops>(view, classes, k);
  } else {
    first_of_many<Ops>(view, classes, count, places);
  }
  for (size_t k = 0; k < count; ++k) {
    groups[k] = __atomic_load_n(&view.groups[places[k]], __ATOMIC_ACQUIRE);
    __builtin_prefetch(groups[k]);
    __builtin_prefetch(groups[k]->ports);
  }
  for (size_t k = 0; k < count; ++k) {
    const FlowKey& packet = burst[slots[k]];
    best[k] = hit_in<Ops>(groups[k], packet);
    if ((best[k] == 0) & (places[k] != view.none)) {
      best[k] = best_behind<Ops>(view, classes, k, places[k], packet);
    }
    for (size_t b = view.ordered; b < view.blocks; ++b) {
      BitBlock common;
      if (Ops::intersect(vectors_of(view, classes, k, b), common) == 0) continue;
      best[k] = best_of_block<Ops>(view, common, b, packet, false, best[k]);
    }
  }
}

}  // namespace headrace::match
