// SPDX-License-Identifier: Apache-2.0
// Internet checksums (RFC 1071) that are completed per packet: everything but the signature is
// summed in advance, and the signature is added when it is written.
#pragma once

#include <cstdint>
#include <cstring>

#include "traffic/frames/signature.h"

namespace headrace::traffic {

/// Adds the signature, the last bytes of a frame of `length`, to the checksum at `offset`, which
/// was computed with zeros in place of the signature and covers the frame from `begin` to its end.
inline void add_signature_to_checksum(uint8_t* frame, unsigned length, unsigned offset,
                                      unsigned begin, bool is_udp) noexcept {
  const unsigned at = length - Signature::kBytes;
  uint32_t sum = 0;
  for (unsigned i = 0; i < Signature::kBytes; i += 2) {
    uint16_t word;
    std::memcpy(&word, frame + at + i, 2);
    sum += word;
  }
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  // If the signature's distance from `begin` is odd, the bytes of each word are swapped.
  if ((at - begin) % 2 != 0) sum = (sum << 8 & 0xff00) | sum >> 8;
  uint16_t checksum;
  std::memcpy(&checksum, frame + offset, 2);
  sum += static_cast<uint16_t>(~checksum);
  sum = (sum & 0xffff) + (sum >> 16);
  checksum = static_cast<uint16_t>(~sum);
  // In UDP, 0 means that there is no checksum (RFC 768).
  if (checksum == 0 && is_udp) checksum = 0xffff;
  std::memcpy(frame + offset, &checksum, 2);
}

}  // namespace headrace::traffic
