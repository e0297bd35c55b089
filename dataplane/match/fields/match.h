// SPDX-License-Identifier: Apache-2.0
// A rule's match: masked values of the fields, plus the fields as they were asked for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "match/fields/fields.h"

namespace headrace::match {

/// The octets of the longest field, an IPv6 address.
inline constexpr size_t kMaxFieldBytes = 16;

/// One OXM as received: replies echo matches in this order, with masks as sent.
struct MatchField {
  Field field;
  bool has_mask;
  std::array<uint8_t, kMaxFieldBytes> value{};
  std::array<uint8_t, kMaxFieldBytes> mask{};  ///< all-ones over the field's bits without has_mask

  bool operator==(const MatchField&) const = default;
};

/// The compiled form of a match. Invariant: value & ~mask == 0, words with a zero mask are not in
/// `words`. Two matches are the same rule iff value and mask are equal.
struct Match {
  FlowKey value{};
  FlowKey mask{};
  WordSet words{0};                ///< words with a non-zero mask
  std::vector<MatchField> fields;  ///< as asked, in order

  /// Adds a field; `mask` may be null for an exact match. Lengths are info(field).bytes.
  void add(Field field, const uint8_t* value_bytes, const uint8_t* mask_bytes = nullptr) {
    const FieldInfo& entry = info(field);
    MatchField as_asked{field, mask_bytes != nullptr, {}, {}};
    std::memcpy(as_asked.value.data(), value_bytes, entry.bytes);
    if (mask_bytes != nullptr) {
      std::memcpy(as_asked.mask.data(), mask_bytes, entry.bytes);
    } else {
      for (size_t i = 0; i < entry.bytes; ++i) as_asked.mask[i] = full_mask_byte(entry, i);
    }
    std::array<uint8_t, kMaxFieldBytes> masked{};
    for (size_t i = 0; i < entry.bytes; ++i) masked[i] = as_asked.value[i] & as_asked.mask[i];
    store(value, field, masked.data());
    store(mask, field, as_asked.mask.data());
    fields.push_back(as_asked);
    words = 0;
    for (size_t i = 0; i < kFieldWords; ++i) {
      if (word(mask, i) != 0) words |= 1u << i;
    }
  }

  /// True if a packet with these field values matches.
  [[nodiscard]] bool matches(const FlowKey& packet) const {
    for (size_t i = 0; i < kFieldWords; ++i) {
      if ((words >> i & 1u) != 0 && (word(packet, i) & word(mask, i)) != word(value, i)) {
        return false;
      }
    }
    return true;
  }

  /// True if both select the same packets by the same mask.
  [[nodiscard]] bool same_as(const Match& other) const {
    return std::memcmp(&value, &other.value, sizeof value) == 0 &&
           std::memcmp(&mask, &other.mask, sizeof mask) == 0;
  }

  /// Octet i of the mask that covers all significant bits of a field.
  static constexpr uint8_t full_mask_byte(const FieldInfo& entry, size_t i) {
    const size_t bits_below = static_cast<size_t>(entry.bytes - i - 1) * 8;
    if (entry.bits >= bits_below + 8) return 0xff;
    if (entry.bits <= bits_below) return 0;
    return static_cast<uint8_t>((1u << (entry.bits - bits_below)) - 1);
  }
};

}  // namespace headrace::match
