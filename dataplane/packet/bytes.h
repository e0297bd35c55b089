// SPDX-License-Identifier: Apache-2.0
// Unaligned loads and stores of packet bytes, with and without change of byte order.
//
// "Raw" keeps the packet's order, as match::FlowKey does; "be" converts to the host's order.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace headrace::packet {

static_assert(std::endian::native == std::endian::little,
              "word layouts of match/fields/extract.cc assume a little-endian host");

inline uint16_t load_raw16(const uint8_t* from) {
  uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline uint32_t load_raw32(const uint8_t* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline uint64_t load_raw64(const uint8_t* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline void store_raw16(uint8_t* to, uint16_t value) {
  std::memcpy(to, &value, sizeof value);
}
inline void store_raw32(uint8_t* to, uint32_t value) {
  std::memcpy(to, &value, sizeof value);
}
inline void store_raw64(uint8_t* to, uint64_t value) {
  std::memcpy(to, &value, sizeof value);
}

/// Host order to network order, or back.
constexpr uint16_t swap16(uint16_t value) {
  return __builtin_bswap16(value);
}
constexpr uint32_t swap32(uint32_t value) {
  return __builtin_bswap32(value);
}
constexpr uint64_t swap64(uint64_t value) {
  return __builtin_bswap64(value);
}

inline uint16_t load_be16(const uint8_t* from) {
  return swap16(load_raw16(from));
}
inline uint32_t load_be32(const uint8_t* from) {
  return swap32(load_raw32(from));
}
inline uint64_t load_be64(const uint8_t* from) {
  return swap64(load_raw64(from));
}
inline void store_be16(uint8_t* to, uint16_t value) {
  store_raw16(to, swap16(value));
}
inline void store_be32(uint8_t* to, uint32_t value) {
  store_raw32(to, swap32(value));
}
inline void store_be64(uint8_t* to, uint64_t value) {
  store_raw64(to, swap64(value));
}

}  // namespace headrace::packet
