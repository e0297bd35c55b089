// SPDX-License-Identifier: Apache-2.0
// Reading and writing big-endian octets, bounds-checked.
//
// Reader's errors are sticky: reading past the end returns zeros and clears ok(), so that a decoder
// reads a whole structure and asks once. No reader ever looks outside its span, whatever the
// lengths in the message claim.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace headrace::wire {

using Bytes = std::span<const uint8_t>;

/// Consumes a span from its front.
class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}

  /// False once anything was read past the end.
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] size_t left() const { return bytes_.size(); }
  [[nodiscard]] Bytes rest() const { return bytes_; }
  /// True if all was consumed and nothing more was asked for.
  [[nodiscard]] bool done() const { return ok_ && bytes_.empty(); }

  uint8_t u8() { return number<uint8_t>(); }
  uint16_t u16() { return number<uint16_t>(); }
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }

  void skip(size_t count) { bytes(count); }

  /// The next `count` octets; empty (and not ok()) if there are fewer.
  Bytes bytes(size_t count) {
    if (count > bytes_.size()) {
      ok_ = false;
      bytes_ = {};
      return {};
    }
    Bytes taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

 private:
  template <typename T>
  T number() {
    Bytes taken = bytes(sizeof(T));
    uint64_t value = 0;
    for (uint8_t octet : taken) value = value << 8 | octet;
    return static_cast<T>(value);
  }

  Bytes bytes_;
  bool ok_{true};
};

/// Appends to a buffer.
class Writer {
 public:
  explicit Writer(std::vector<uint8_t>& buffer) : buffer_(buffer) {}

  void u8(uint8_t value) { buffer_.push_back(value); }
  void u16(uint16_t value) { number(value); }
  void u32(uint32_t value) { number(value); }
  void u64(uint64_t value) { number(value); }
  void zeros(size_t count) { buffer_.resize(buffer_.size() + count); }
  void bytes(Bytes from) { buffer_.insert(buffer_.end(), from.begin(), from.end()); }

  /// `text` cut to size - 1 octets, padded with zeros to `size`.
  void text(std::string_view text, size_t size) {
    const size_t length = std::min(text.size(), size - 1);
    bytes({reinterpret_cast<const uint8_t*>(text.data()), length});
    zeros(size - length);
  }

  /// Zeros until the octets since `start` are a multiple of 8.
  void pad8(size_t start) { zeros((8 - (size() - start) % 8) % 8); }

  [[nodiscard]] size_t size() const { return buffer_.size(); }

  /// The 16-bit field at `position`.
  [[nodiscard]] uint16_t peek16(size_t position) const {
    return static_cast<uint16_t>(buffer_[position] << 8 | buffer_[position + 1]);
  }

  /// Overwrites the 16-bit field at `position`, for lengths known late.
  void patch16(size_t position, size_t value) {
    buffer_[position] = static_cast<uint8_t>(value >> 8);
    buffer_[position + 1] = static_cast<uint8_t>(value);
  }

 private:
  template <typename T>
  void number(T value) {
    std::array<uint8_t, sizeof(T)> octets;
    for (size_t i = 0; i < sizeof(T); ++i) {
      octets[i] = static_cast<uint8_t>(value >> 8 * (sizeof(T) - 1 - i));
    }
    bytes(octets);
  }

  std::vector<uint8_t>& buffer_;
};

}  // namespace headrace::wire
