// SPDX-License-Identifier: Apache-2.0
// "Touching the payload" means: the producer writes a word into each cache line of a packet, the
// consumer reads the word of each, and checks that they are those of one packet.
//
// The word contains a magic number, so that a packet of one line is checked too. Lines are
// prefetched for a whole burst before the first one is used, as in any fast VNF.
//
// The word is at offset 16 of each 64 octets, so that the Ethernet header is not overwritten.
// Packets that are not touched still have that header: bridges need it.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/prefetch.h"

namespace headrace::channel {

inline constexpr uint32_t kLine = 64;
inline constexpr uint32_t kWordAt = 16;
inline constexpr uint64_t kMark = 0x4852ULL
                                  << 48;  ///< upper 16 bits of a word; the rest counts packets
inline constexpr uint64_t kMarkMask = 0xffffULL << 48;

/// Writes an Ethernet header to a station behind the other end, with an EtherType for experiments
/// (IEEE 802, 0x88b5) that no protocol stack answers.
inline void write_header(uint8_t* octets) {
  static constexpr uint8_t kHeader[14] = {2, 0, 0, 0, 0xc, 2, 2, 0, 0, 0, 0xc, 1, 0x88, 0xb5};
  std::memcpy(octets, kHeader, sizeof kHeader);
}

/// Prefetches a packet's lines for writing.
inline void prefetch_to_write(uint8_t* octets, uint32_t length) {
  for (uint32_t at = 0; at < length; at += kLine) headrace::prefetch_to_write(octets + at);
}

/// Prefetches a packet's lines for reading.
inline void prefetch_to_read(const uint8_t* octets, uint32_t length) {
  for (uint32_t at = 0; at < length; at += kLine) headrace::prefetch_to_read(octets + at);
}

/// Writes the magic number and `number` into each cache line of a packet of `length` >= 24 octets.
inline void write_lines(uint8_t* octets, uint32_t length, uint64_t number) {
  const uint64_t word = kMark | (number & ~kMarkMask);
  for (uint32_t at = kWordAt; at + sizeof word <= length; at += kLine) {
    std::memcpy(octets + at, &word, sizeof word);
  }
}

/// Reads the word of each cache line; false if they differ or lack the magic number.
inline bool read_lines(const uint8_t* octets, uint32_t length) {
  uint64_t first = 0;
  std::memcpy(&first, octets + kWordAt, sizeof first);
  uint64_t difference = 0;
  for (uint32_t at = kWordAt + kLine; at + sizeof first <= length; at += kLine) {
    uint64_t word = 0;
    std::memcpy(&word, octets + at, sizeof word);
    difference |= word ^ first;
  }
  return difference == 0 && (first & kMarkMask) == kMark;
}

}  // namespace headrace::channel
