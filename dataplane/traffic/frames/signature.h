// SPDX-License-Identifier: Apache-2.0
// The signature of every generated packet: the last 14 bytes of its frame.
//
//   offset  bytes  what
//        0      2  magic 0x4852
//        2      2  stream number (which identifies the sending port, too)
//        4      4  sequence number within the stream and run, from 0
//        8      5  intended send time, TSC cycles modulo 2^40
//       13      1  run: every warm-up and every trial has its own, so that late packets of
//                  earlier ones are not counted
//
// Little-endian: sender and receiver are the same process, which is also why TSC times are
// comparable. Why at the end: tags, labels and tunnels that the device under test adds or removes
// move the start of the payload, not its end. Why 14: 64-byte frames (60 without FCS) with VLAN,
// IPv4 and UDP headers leave 14. Padding does move the end: a 64-byte frame whose tag a switch
// takes off is padded to 64 bytes again, and longer if it gets another tag then. So where the end
// of a short frame has no signature, it is looked for before zeros as long as one or two tags.
//
// Limits: the time wraps after 2^40 cycles (nine minutes at 2 GHz), and latencies must be below
// that; the sequence number wraps at 2^32 (three minutes at 20 Mpps) and is extended by the
// receiver (sequence.h), which requires gaps shorter than 2^31; 65536 streams; run numbers repeat
// after 256. A foreign packet is taken for one of a given run with probability 2^-24 or less.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

namespace headrace::traffic {

struct Signature {
  static constexpr uint16_t kMagic = 0x4852;
  static constexpr unsigned kBytes = 14;
  static constexpr uint64_t kTimeMask = (uint64_t{1} << 40) - 1;
  static constexpr unsigned kTag = 4;
  static constexpr unsigned kLongestPadded = 60 + 2 * kTag;  ///< two tags added behind the padding

  uint16_t stream;
  uint32_t sequence;
  uint64_t time;  ///< modulo 2^40
  uint8_t run;

  /// Writes the signature to the kBytes at `to`.
  void write(uint8_t* to) const noexcept {
    const uint64_t head =
        kMagic | (static_cast<uint64_t>(stream) << 16) | (static_cast<uint64_t>(sequence) << 32);
    const auto tail = static_cast<uint32_t>(time);
    const auto last = static_cast<uint16_t>(((time >> 32) & 0xff) | (uint64_t{run} << 8));
    std::memcpy(to, &head, 8);
    std::memcpy(to + 8, &tail, 4);
    std::memcpy(to + 12, &last, 2);
  }

  /// Reads the signature at `from` (kBytes); nothing if the magic is wrong.
  static std::optional<Signature> read(const uint8_t* from) noexcept {
    uint64_t head;
    uint32_t tail;
    uint16_t last;
    std::memcpy(&head, from, 8);
    if (static_cast<uint16_t>(head) != kMagic) return std::nullopt;
    std::memcpy(&tail, from + 8, 4);
    std::memcpy(&last, from + 12, 2);
    return Signature{.stream = static_cast<uint16_t>(head >> 16),
                     .sequence = static_cast<uint32_t>(head >> 32),
                     .time = tail | (uint64_t{last & 0xffU} << 32),
                     .run = static_cast<uint8_t>(last >> 8)};
  }

  /// Reads the signature of a short frame that ends in padding in place of one or two tags; nothing
  /// if the frame is longer than a padded one, or has none there.
  static std::optional<Signature> read_padded(const uint8_t* frame, unsigned length) noexcept {
    if (length > kLongestPadded || length < kBytes + 2 * kTag) return std::nullopt;
    for (unsigned padding = kTag; padding <= 2 * kTag; padding += kTag) {
      uint32_t zeros;
      std::memcpy(&zeros, frame + length - padding, kTag);
      if (zeros != 0) return std::nullopt;
      if (const auto found = read(frame + length - padding - kBytes)) return found;
    }
    return std::nullopt;
  }

  /// Cycles from the signature's time to `now`; 0 for a time up to a quarter of the range in the
  /// future (the TSCs of two cores differ by some cycles).
  [[nodiscard]] uint64_t age(uint64_t now) const noexcept {
    const uint64_t cycles = (now - time) & kTimeMask;
    return cycles > kTimeMask - (kTimeMask >> 2) ? 0 : cycles;
  }
};

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "signatures are copied in host byte order");

}  // namespace headrace::traffic
