// SPDX-License-Identifier: Apache-2.0
#include "packet/checksum.h"

#include <algorithm>
#include <array>
#if defined(__SSE4_2__)
#include <nmmintrin.h>
#endif

namespace headrace::packet {
namespace {

/// The remainders of all octets under the reflected Castagnoli polynomial.
constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t octet = 0; octet < 256; ++octet) {
    uint32_t remainder = octet;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82f63b78u : 0u);
    }
    table[octet] = remainder;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

}  // namespace

uint32_t crc32c_portable(std::span<const uint8_t> bytes, uint32_t crc) noexcept {
  uint32_t state = ~crc;
  for (const uint8_t octet : bytes) state = (state >> 8) ^ kTable[(state ^ octet) & 0xff];
  return ~state;
}

uint32_t crc32c(std::span<const uint8_t> bytes, uint32_t crc) noexcept {
#if defined(__SSE4_2__)
  uint64_t state = static_cast<uint32_t>(~crc);
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) state = _mm_crc32_u64(state, load_raw64(&bytes[i]));
  auto rest = static_cast<uint32_t>(state);
  for (; i < bytes.size(); ++i) rest = _mm_crc32_u8(rest, bytes[i]);
  return ~rest;
#else
  return crc32c_portable(bytes, crc);
#endif
}

// Without the inversions the CRC is linear: that of a XOR b is that of a XOR that of b. So the
// change alone is run through it, from a state of 0, and zeros for what stays as it is.
uint32_t crc32c_change(std::span<const uint8_t> change, size_t behind) noexcept {
  static constexpr std::array<uint8_t, 256> kZeros{};
  uint32_t crc = crc32c(change, ~uint32_t{0});
  while (behind != 0) {
    const size_t n = std::min(behind, kZeros.size());
    crc = crc32c(std::span(kZeros).first(n), crc);
    behind -= n;
  }
  return ~crc;
}

}  // namespace headrace::packet
