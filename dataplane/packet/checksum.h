// SPDX-License-Identifier: Apache-2.0
// The Internet checksum: full, incremental, and over pseudo-headers. And SCTP's CRC32c.
//
// Sums are of 16-bit words taken as they lie in memory (RFC 1071, 2(B): the sum is independent of
// byte order), so checksums here are raw: store them with store_raw16().
//
// Source: RFC 1071, RFC 1624 (equation 3: HC' = ~(~HC + ~m + m')), RFC 768, RFC 8200 8.1, RFC 9260
// appendix A.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "packet/bytes.h"

namespace headrace::packet {

/// An unfolded one's complement sum; add to it, then fold().
using Sum = uint64_t;

/// Folds a sum into 16 bits, with end-around carry.
constexpr uint16_t fold(Sum sum) {
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

/// Sum of `bytes`, which start at an even offset of what the checksum covers; an odd last byte is
/// padded with zero.
[[nodiscard]] inline Sum sum_of(std::span<const uint8_t> bytes) {
  Sum sum = 0;
  size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4) sum += load_raw32(&bytes[i]);
  if (i + 2 <= bytes.size()) {
    sum += load_raw16(&bytes[i]);
    i += 2;
  }
  if (i < bytes.size()) sum += bytes[i];
  return sum;
}

/// The checksum over `bytes`, whose checksum field is zero. Over a valid header it is 0.
[[nodiscard]] inline uint16_t checksum(std::span<const uint8_t> bytes) {
  return static_cast<uint16_t>(~fold(sum_of(bytes)));
}

/// Sum of the IPv4 pseudo-header (RFC 768). Addresses raw; `l4_length` in octets, host order.
[[nodiscard]] constexpr Sum pseudo_ipv4(uint32_t src, uint32_t dst, uint8_t proto,
                                        uint16_t l4_length) {
  return Sum{src} + dst + swap16(proto) + swap16(l4_length);
}

/// Sum of the IPv6 pseudo-header (RFC 8200, 8.1). Addresses of 16 octets.
[[nodiscard]] inline Sum pseudo_ipv6(const uint8_t* src, const uint8_t* dst, uint8_t proto,
                                     uint32_t l4_length) {
  return sum_of({src, 16}) + sum_of({dst, 16}) + swap32(l4_length) + swap16(proto);
}

/// RFC 1624: the checksum after raw 16-bit word `before` became `after`.
[[nodiscard]] constexpr uint16_t update16(uint16_t checksum, uint16_t before, uint16_t after) {
  return static_cast<uint16_t>(
      ~fold(Sum{static_cast<uint16_t>(~checksum)} + static_cast<uint16_t>(~before) + after));
}

/// The same for a raw 32-bit word at an even offset.
[[nodiscard]] constexpr uint16_t update32(uint16_t checksum, uint32_t before, uint32_t after) {
  return static_cast<uint16_t>(
      ~fold(Sum{static_cast<uint16_t>(~checksum)} + static_cast<uint32_t>(~before) + after));
}

/// The same for any even number of octets at an even offset.
[[nodiscard]] inline uint16_t update_bytes(uint16_t checksum, const uint8_t* before,
                                           const uint8_t* after, size_t size) {
  Sum sum = static_cast<uint16_t>(~checksum);
  for (size_t i = 0; i + 2 <= size; i += 2) {
    sum += static_cast<uint16_t>(~load_raw16(before + i));
    sum += load_raw16(after + i);
  }
  return static_cast<uint16_t>(~fold(sum));
}

/// UDP transmits a computed 0 as 0xffff (RFC 768).
[[nodiscard]] constexpr uint16_t udp_nonzero(uint16_t checksum) {
  return checksum == 0 ? 0xffff : checksum;
}

/// CRC32c (Castagnoli, reflected, inverted in and out) of `bytes`, continuing from `crc` (0 at the
/// start). SCTP stores it least significant octet first.
[[nodiscard]] uint32_t crc32c(std::span<const uint8_t> bytes, uint32_t crc = 0) noexcept;

/// What a change of octets does to the CRC32c of the message that they stand in: to be XORed into
/// it. `change`: the octets before XOR those after; `behind`: octets of the message behind them.
[[nodiscard]] uint32_t crc32c_change(std::span<const uint8_t> change, size_t behind) noexcept;

/// The portable variant of crc32c(), table driven; the only one on machines without SSE4.2.
[[nodiscard]] uint32_t crc32c_portable(std::span<const uint8_t> bytes, uint32_t crc = 0) noexcept;

}  // namespace headrace::packet
