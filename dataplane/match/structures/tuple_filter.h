// SPDX-License-Identifier: Apache-2.0
// Which tuples of a tuple space can hold a rule for a packet, by a few octets of it.
//
// For each of up to eight octets of FlowKey every value has a set of tuples: those with a rule
// that allows that value of the octet. The sets of a packet's octets intersected are the tuples to
// search. A rule that does not match an octet allows all its values. So a tuple is never left out
// wrongly, and is searched in vain only for packets that agree with rules of it in every chosen
// octet. For 64 tuples that is eight loads per packet at most instead of 64 hash look-ups, whatever
// the packet: traffic made to miss every tuple finds the set empty, mostly after one octet.
//
// Values that the same tuples allow are of one class and share a set. That makes the filter small:
// a few cache lines, not hundreds. Packets that are rare among others, an attack's, meet it when
// the others have driven it out of the near caches, and then each line that they touch counts.
//
// The octets are chosen when the filter is built, those first that fewest values of the rules
// allow. Octets that only say what kind of packet it is (eth_type, ip_proto) are left out: the
// traffic that meets a table is mostly of the kind of its rules.
//
// Change. Rules and tuples are added in place: a bit is set before the rule can be found; a class
// of which only some values get it is parted, the new class being complete before a value says that
// it is of it. Nothing is ever cleared, no class is ever empty, so there are 256 at most; a filter
// that has no numbers left for tuples is built anew, from profiles.
//
// Source: the bit vectors are Lakshman and Stiliadis's (SIGCOMM 1998), of tuples instead of rules;
// classes of values are from Gupta and McKeown's recursive flow classification (SIGCOMM 1999).
//
// Thread safety: workers may be in candidates() while one control thread changes it.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "match/fields/fields.h"

namespace headrace::match {

/// Octet by octet, the values that the rules of one tuple allow. Rules that went may still count.
class TupleProfile {
 public:
  explicit TupleProfile(const FlowKey& mask);

  /// Adds the values of a rule; `value` is masked. False if all were there.
  bool add(const FlowKey& value);
  /// The values allowed at an offset into FlowKey; null: all are.
  [[nodiscard]] const std::bitset<256>* values_at(size_t offset) const;

 private:
  struct Octet {
    uint8_t offset;
    uint8_t mask;
    std::bitset<256> values;
  };
  std::vector<Octet> octets_;  ///< those with a mask
};

class TupleFilter {
 public:
  static constexpr size_t kMaxOctets = 8;
  static constexpr size_t kMaxTuples = 512;
  static constexpr size_t kMaxWords = kMaxTuples / 64;
  /// Bit n of word n / 64: tuple n.
  using Set = std::array<uint64_t, kMaxWords>;

  /// The tuples get the numbers 0, 1, ... in their order, as far as kMaxTuples.
  explicit TupleFilter(std::span<const TupleProfile* const> tuples);

  /// Control: another tuple's number; nothing if there is none left.
  [[nodiscard]] std::optional<uint16_t> add(const TupleProfile& profile);
  /// Control: the tuple's profile has become wider; before the rule can be found.
  void widen(uint16_t tuple, const TupleProfile& profile);

  /// Worker: the words() words of the set of tuples that can hold a rule for the packet.
  void candidates(const FlowKey& packet, Set& set) const noexcept {
    // Copies: the stores to `set` might else be to members, for all that a compiler knows.
    const size_t words = words_;
    const size_t chosen = offsets_.size();
    const uint8_t* const offsets = offsets_.data();
    const uint8_t* const classes = classes_.data();
    const uint64_t* const rows = rows_.data();
    const auto* octets = reinterpret_cast<const uint8_t*>(&packet);
    for (size_t w = 0; w < words; ++w) set[w] = ~uint64_t{0};
    for (size_t i = 0; i < chosen; ++i) {
      const uint8_t number =
          __atomic_load_n(&classes[i * 256 + octets[offsets[i]]], __ATOMIC_ACQUIRE);
      const uint64_t* row = &rows[(i * 256 + number) * words];
      uint64_t any = 0;
      for (size_t w = 0; w < words; ++w) {
        any |= set[w] &= __atomic_load_n(&row[w], __ATOMIC_RELAXED);
      }
      if (any == 0) return;
    }
  }
  [[nodiscard]] size_t words() const { return words_; }
  /// The tuples that its octets were chosen for.
  [[nodiscard]] size_t chosen_for() const { return chosen_for_; }
  [[nodiscard]] size_t memory_bytes() const {
    return rows_.size() * sizeof(uint64_t) + classes_.size();
  }

 private:
  void widen_octet(size_t chosen, uint16_t tuple, const std::bitset<256>& values);

  size_t chosen_for_;
  size_t words_;
  size_t used_{0};                   ///< numbers given
  std::vector<uint8_t> offsets_;     ///< of the chosen octets
  std::vector<uint8_t> classes_;     ///< by chosen octet, value
  std::vector<uint16_t> n_classes_;  ///< by chosen octet
  std::vector<uint64_t> rows_;       ///< by chosen octet, class, word; those in use come first
};

}  // namespace headrace::match
