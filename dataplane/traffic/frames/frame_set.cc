// SPDX-License-Identifier: Apache-2.0
#include "traffic/frames/frame_set.h"

#include <algorithm>
#include <numeric>

#include "traffic/frames/checksum.h"

namespace headrace::traffic {

namespace {

uint64_t values_of(const Field& field, const Variation& variation) {
  return field.values() / std::gcd(field.values(), variation.step);
}

/// How many flows the variations distinguish: the least common multiple of their counts, or
/// `enough` if that is less.
Result<uint64_t> distinct(const Headers& headers, const std::vector<Variation>& vary,
                          uint64_t enough) {
  uint64_t multiple = 1;
  for (const Variation& variation : vary) {
    const Field* field = headers.find(variation.field);
    if (field == nullptr) {
      return fail_as("bad_params", "vary: the headers have no {}", variation.field);
    }
    if (variation.step == 0) return fail_as("bad_params", "vary: step must not be 0");
    const uint64_t values = values_of(*field, variation);
    if (variation.count > values) {
      return fail_as("bad_params", "vary: {} has {} values at step {}, not {}", variation.field,
                     values, variation.step, variation.count);
    }
    const uint64_t count = variation.count == 0 ? values : variation.count;
    const uint64_t factor = count / std::gcd(count, multiple);
    multiple = factor > enough / multiple ? enough : multiple * factor;
  }
  return multiple;
}

/// Offsets of 4-byte words that together cover all bytes in which flows differ.
std::vector<uint16_t> cover(const Headers& headers, const std::vector<Variation>& vary) {
  std::vector<bool> differs(headers.bytes.size());
  for (const Variation& variation : vary) {
    const Field& field = *headers.find(variation.field);
    std::fill_n(differs.begin() + field.offset, field.bytes, true);
    for (const Checksum& checksum : headers.checksums) {
      if (checksum.covers(field.offset)) std::fill_n(differs.begin() + checksum.offset, 2, true);
    }
  }
  std::vector<uint16_t> offsets;
  for (size_t at = 0; at < differs.size(); ++at) {
    if (!differs[at]) continue;
    offsets.push_back(static_cast<uint16_t>(std::min(at, differs.size() - 4)));
    at = offsets.back() + 3U;
  }
  return offsets;
}

}  // namespace

Result<FrameSet> FrameSet::build(const HeaderStack& stack, const SizeProfile& sizes, uint32_t flows,
                                 const std::vector<Variation>& vary) {
  if (flows == 0 || flows > kMaxFlows) {
    return fail_as("bad_params", "flows: must be from 1 to {}", kMaxFlows);
  }
  const auto needed = static_cast<uint16_t>(stack.length() + Signature::kBytes);
  if (sizes.sizes.front() - SizeProfile::kFcs < needed) {
    return fail_as("bad_params",
                   "size: {} is too small for these headers and the signature; the minimum is {}",
                   sizes.sizes.front(), needed + SizeProfile::kFcs);
  }
  FrameSet set;
  set.flows_ = flows;
  for (const uint16_t size : sizes.sizes) {
    const Headers headers = stack.build(static_cast<uint16_t>(size - SizeProfile::kFcs));
    if (flows > 1 && set.shapes_.empty()) {
      const auto different = distinct(headers, vary, flows);
      if (!different) return tl::unexpected(different.error());
      if (*different < flows) {
        return fail_as("bad_params",
                       "flows: the fields of vary distinguish {} flows, not {}; vary more",
                       *different, flows);
      }
      const std::vector<uint16_t> offsets = cover(headers, vary);
      if (offsets.size() > kMaxWords) {
        return fail_as("bad_params", "vary: too many fields; name fewer");
      }
      std::copy(offsets.begin(), offsets.end(), set.offsets_.begin());
      set.words_ = static_cast<unsigned>(offsets.size());
    }
    Shape& shape = set.shapes_.emplace_back();
    std::copy(headers.bytes.begin(), headers.bytes.end(), shape.bytes.begin());
    shape.length = headers.frame_length;
    shape.header_length = static_cast<uint16_t>(headers.bytes.size());
    shape.copied = static_cast<uint16_t>((headers.bytes.size() + 63) / 64 * 64);
    if (const Checksum* checksum = headers.payload_checksum()) {
      shape.checksum_offset = checksum->offset;
      shape.checksum_begin = checksum->begin;
      shape.checksum_is_udp = checksum->protocol == 17;
      set.needs_finish_ = true;
    }
    set.fill_rows(shape, headers, vary);
  }
  return set;
}

void FrameSet::fill_rows(Shape& shape, const Headers& headers,
                         const std::vector<Variation>& vary) const {
  if (words_ == 0) return;
  struct Step {
    Field field;
    uint64_t step;
    uint64_t count;
  };
  std::vector<Step> steps;
  for (const Variation& variation : vary) {
    const Field& field = *headers.find(variation.field);
    steps.push_back({field, variation.step,
                     variation.count == 0 ? values_of(field, variation) : variation.count});
  }
  shape.rows.reserve(static_cast<size_t>(flows_) * words_);
  std::vector<uint8_t> bytes;
  for (uint32_t flow = 0; flow < flows_; ++flow) {
    bytes = headers.bytes;
    for (const Step& step : steps) step.field.add(bytes, step.step * (flow % step.count));
    headers.fix_checksums(bytes);
    for (unsigned i = 0; i < words_; ++i) {
      uint32_t word;
      std::memcpy(&word, bytes.data() + offsets_[i], 4);
      shape.rows.push_back(word);
    }
  }
}

void FrameSet::clear_payload(uint8_t* frame, unsigned size) const noexcept {
  const Shape& shape = shapes_[size];
  std::memset(frame + shape.header_length, 0,
              static_cast<size_t>(shape.length - shape.header_length));
}

void FrameSet::finish(uint8_t* frame, unsigned size) const noexcept {
  const Shape& shape = shapes_[size];
  if (shape.checksum_offset == 0) return;
  add_signature_to_checksum(frame, shape.length, shape.checksum_offset, shape.checksum_begin,
                            shape.checksum_is_udp);
}

}  // namespace headrace::traffic
