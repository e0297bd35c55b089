// SPDX-License-Identifier: Apache-2.0
// A mask as the few words that it has: how a key is cut out of FlowKey.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "match/fields/fields.h"

namespace headrace::match {

/// The non-zero words of a mask, in ascending order.
class MaskedWords {
 public:
  MaskedWords() = default;
  explicit MaskedWords(const FlowKey& mask) {
    for (size_t i = 0; i < kFieldWords; ++i) {
      if (word(mask, i) == 0) continue;
      set_ |= WordSet{1} << i;
      position_[size_] = static_cast<uint8_t>(i);
      mask_[size_] = word(mask, i);
      ++size_;
    }
  }

  [[nodiscard]] size_t size() const { return size_; }
  /// Which words.
  [[nodiscard]] WordSet set() const { return set_; }
  [[nodiscard]] size_t position(size_t i) const { return position_[i]; }
  [[nodiscard]] uint64_t mask(size_t i) const { return mask_[i]; }

  /// Word i of the key of `values`.
  [[nodiscard]] uint64_t key_word(const FlowKey& values, size_t i) const {
    return word(values, position_[i]) & mask_[i];
  }

 private:
  size_t size_{0};
  WordSet set_{0};
  std::array<uint8_t, kFieldWords> position_{};
  std::array<uint64_t, kFieldWords> mask_{};
};

}  // namespace headrace::match
