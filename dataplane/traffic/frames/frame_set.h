// SPDX-License-Identifier: Apache-2.0
// All frames of a stream, precomputed so that sending a frame costs only a copy of its headers and
// of a few words.
//
// For each frame size there is a template of the headers. Flows differ from it in a few 4-byte
// words: those that contain the varied fields and the checksums that cover them. These words are
// computed once per size and flow and stored in rows; write() copies the template and then the
// flow's row over it; the caller then writes the signature. A million flows that differ in the IPv4
// destination take 8 bytes each per size, read sequentially, so the CPU prefetches them.
//
// The payload is not written: it is whatever the buffer contained before. Where a TCP or UDP
// checksum covers it, it is zeroed instead, except for the signature.
//
// Thread safety: immutable after build().
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/result.h"
#include "traffic/frames/header_stack.h"
#include "traffic/frames/signature.h"
#include "traffic/frames/size_profile.h"

namespace headrace::traffic {

/// A field in which flows differ: flow i has the base value + step * (i mod count).
struct Variation {
  std::string field;  ///< see Headers::find()
  uint64_t step{1};
  uint64_t count{0};  ///< 0: as many values as the field has
};

class FrameSet {
 public:
  static constexpr uint32_t kMaxFlows = 1U << 20;
  static constexpr unsigned kMaxWords = 12;

  /// Fails if the frame is too small for headers and signature, a field is not in the headers, or
  /// the variations don't give `flows` different packets. Messages name the member: "size: ...".
  static Result<FrameSet> build(const HeaderStack& stack, const SizeProfile& sizes, uint32_t flows,
                                const std::vector<Variation>& vary);

  [[nodiscard]] uint32_t flows() const { return flows_; }
  [[nodiscard]] uint16_t length(unsigned size) const { return shapes_[size].length; }

  /// Writes the headers of `flow` at frame size number `size` to `frame`, which must have space for
  /// Headers::kMax bytes or the frame, whichever is more. Returns the frame's length (without FCS).
  uint16_t write(uint8_t* frame, unsigned size, uint32_t flow) const noexcept {
    const Shape& shape = shapes_[size];
    std::memcpy(frame, shape.bytes.data(), 64);
    for (unsigned at = 64; at < shape.copied; at += 64) {
      std::memcpy(frame + at, shape.bytes.data() + at, 64);
    }
    const uint32_t* row = shape.rows.data() + static_cast<size_t>(flow) * words_;
    for (unsigned i = 0; i < words_; ++i) std::memcpy(frame + offsets_[i], row + i, 4);
    return shape.length;
  }

  /// Whether a checksum covers the payload: then finish() must be called after the signature is
  /// written.
  [[nodiscard]] bool needs_finish() const { return needs_finish_; }
  /// Zeroes the payload; call between write() and the signature if needs_finish().
  void clear_payload(uint8_t* frame, unsigned size) const noexcept;
  /// Adds the signature at the frame's end to the checksum that covers it.
  void finish(uint8_t* frame, unsigned size) const noexcept;

 private:
  struct Shape {
    alignas(64) std::array<uint8_t, Headers::kMax> bytes{};
    uint16_t length{0};  ///< of the frame, without FCS
    uint16_t header_length{0};
    uint16_t copied{0};           ///< header length rounded up to 64
    uint16_t checksum_offset{0};  ///< of the checksum that covers the payload; 0: none
    uint16_t checksum_begin{0};
    bool checksum_is_udp{false};
    std::vector<uint32_t> rows;  ///< words_ per flow
  };

  void fill_rows(Shape& shape, const Headers& headers, const std::vector<Variation>& vary) const;

  std::vector<Shape> shapes_;
  std::array<uint16_t, kMaxWords> offsets_{};
  unsigned words_{0};
  uint32_t flows_{0};
  bool needs_finish_{false};
};

}  // namespace headrace::traffic
