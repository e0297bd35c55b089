// SPDX-License-Identifier: Apache-2.0
// What "touching the payload" is: the producer writes a word into each cache line of a packet, the
// consumer reads the word of each, and checks that they are those of one packet.
//
// The word stands 16 octets into each 64, so that the Ethernet header before the first one stays as
// it is. Packets that are not touched still have that header: bridges look at it.
#pragma once

#include <cstdint>
#include <cstring>

namespace headrace::channel {

inline constexpr uint32_t kLine = 64;
inline constexpr uint32_t kWordAt = 16;

/// To a station behind the other end, of an EtherType for experiments (IEEE 802, 0x88b5) that no
/// protocol stack answers.
inline void write_header(uint8_t* octets) {
  static constexpr uint8_t kHeader[14] = {2, 0, 0, 0, 0xc, 2, 2, 0, 0, 0, 0xc, 1, 0x88, 0xb5};
  std::memcpy(octets, kHeader, sizeof kHeader);
}

/// Writes `word` into each cache line of a packet of `length` >= 24 octets.
inline void write_lines(uint8_t* octets, uint32_t length, uint64_t word) {
  for (uint32_t at = kWordAt; at + sizeof word <= length; at += kLine) {
    std::memcpy(octets + at, &word, sizeof word);
  }
}

/// Reads the word of each cache line; false if they differ.
inline bool read_lines(const uint8_t* octets, uint32_t length) {
  uint64_t first = 0;
  std::memcpy(&first, octets + kWordAt, sizeof first);
  uint64_t difference = 0;
  for (uint32_t at = kWordAt + kLine; at + sizeof first <= length; at += kLine) {
    uint64_t word = 0;
    std::memcpy(&word, octets + at, sizeof word);
    difference |= word ^ first;
  }
  return difference == 0;
}

}  // namespace headrace::channel
