// SPDX-License-Identifier: Apache-2.0
// Rules by prefix: the control side's records of a prefix table.
//
// What it must be quick at is to miss. Whenever a prefix comes or goes, the longest shorter prefix
// that covers it is looked for, length by length, and mostly there is none. So the map is open
// addressed with linear probing, and each slot's hash has 32 bits in an array of their own: a miss
// reads one or two of them, for 100 000 prefixes from 1 MiB that stays in the cache, and touches no
// slot. Removal shifts back what follows, so that there are no graves to probe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headrace::match {

/// A prefix in two words, in host order: what masking and hashing want.
struct PrefixKey {
  uint64_t high{0};
  uint64_t low{0};
  uint8_t length{0};

  bool operator==(const PrefixKey&) const = default;

  /// Octet i of the address.
  [[nodiscard]] uint8_t octet(size_t i) const {
    return static_cast<uint8_t>(i < 8 ? high >> (56 - 8 * i) : low >> (120 - 8 * i));
  }
  /// This prefix cut to `bits`, at most its length.
  [[nodiscard]] PrefixKey cut(size_t bits) const;
  /// True if `other` lies in this prefix (or is it).
  [[nodiscard]] bool covers(const PrefixKey& other) const {
    return length <= other.length && other.cut(length) == *this;
  }
};

/// What is kept with a prefix.
struct PrefixRule {
  uint16_t priority;
  uint32_t index;
};

class PrefixMap {
 public:
  PrefixMap();

  /// The rule of this very prefix, or null.
  [[nodiscard]] const PrefixRule* find(const PrefixKey& key) const;
  [[nodiscard]] PrefixRule* find(const PrefixKey& key);
  /// The prefix must not be there.
  void insert(const PrefixKey& key, PrefixRule rule);
  /// The prefix must be there.
  void erase(const PrefixKey& key);
  /// Makes room for so many prefixes in all; while there are none.
  void reserve(size_t prefixes);
  [[nodiscard]] size_t size() const { return size_; }

  /// True if `predicate(key, rule)` is, for any of all.
  template <typename Predicate>
  [[nodiscard]] bool any_of(Predicate&& predicate) const {
    for (size_t at = 0; at < tags_.size(); ++at) {
      if (tags_[at] != kEmpty && predicate(slots_[at].key, slots_[at].rule)) return true;
    }
    return false;
  }

 private:
  static constexpr uint32_t kEmpty = 0;
  static constexpr size_t kNowhere = ~size_t{0};

  struct Slot {
    PrefixKey key;
    PrefixRule rule;
  };

  [[nodiscard]] size_t place_of(const PrefixKey& key) const;
  void put(const Slot& slot);
  void grow();

  std::vector<uint32_t> tags_;  ///< kEmpty, or bits of the hash other than those of the place
  std::vector<Slot> slots_;     ///< as many: a power of two
  size_t size_{0};
};

}  // namespace headrace::match
