// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/oxm.h"

#include "pipeline/operations/prerequisites.h"

namespace headrace::openflow {
namespace {

using match::Field;
using match::FieldInfo;
using match::MatchField;
using pipeline::KnownHeaders;
using pipeline::prerequisites_met;

constexpr uint16_t kMatchTypeOxm = 1;

/// Checks one field's value and mask; a mask that covers the whole field is always allowed.
OfResult<> check_mask(const FieldInfo& entry, Bytes value, Bytes mask) {
  bool full = true;
  for (size_t i = 0; i < mask.size(); ++i) {
    if ((value[i] & ~mask[i]) != 0) return of_fail(error::kMatchBadWildcards);
    const uint8_t all = match::Match::full_mask_byte(entry, i);
    full = full && (mask[i] & all) == all;
  }
  if (!entry.maskable && !full) return of_fail(error::kMatchBadMask);
  return {};
}

OfResult<> decode_field(Reader& reader, match::Match& match, KnownHeaders& known, uint64_t& seen) {
  const match::OxmHeader header = match::read_oxm_header(reader);
  Reader payload(reader.bytes(header.length));
  if (!reader.ok()) return of_fail(error::kMatchBadLen);
  const std::optional<Field> field = match::field_of_oxm(header, payload);
  if (!field) return of_fail(error::kMatchBadField);
  const FieldInfo& entry = match::info(*field);
  const size_t expected = header.has_mask ? entry.bytes * 2u : entry.bytes;
  if (!payload.ok() || payload.left() != expected) return of_fail(error::kMatchBadLen);
  const uint64_t bit = uint64_t{1} << static_cast<unsigned>(*field);
  if ((seen & bit) != 0) return of_fail(error::kMatchDupField);
  seen |= bit;
  const Bytes value = payload.bytes(entry.bytes);
  if (!match::within_bits(entry, value)) return of_fail(error::kMatchBadValue);
  if (header.has_mask) {
    const Bytes mask = payload.bytes(entry.bytes);
    if (OfResult<> checked = check_mask(entry, value, mask); !checked) return checked;
    // Mask bits beyond the field's width are ignored: the compiled mask omits them.
    std::array<uint8_t, 16> clipped{};
    for (size_t i = 0; i < mask.size(); ++i) {
      clipped[i] = mask[i] & match::Match::full_mask_byte(entry, i);
    }
    if (!prerequisites_met(*field, known)) return of_fail(error::kMatchBadPrereq);
    match.add(*field, value.data(), clipped.data());
  } else {
    if (!prerequisites_met(*field, known)) return of_fail(error::kMatchBadPrereq);
    match.add(*field, value.data());
  }
  known.learn(match.fields.back());
  return {};
}

}  // namespace

OfResult<match::Match> decode_oxm_fields(Reader& reader) {
  static_assert(match::kFieldCount <= 64);
  match::Match match;
  KnownHeaders known;
  uint64_t seen = 0;
  while (reader.left() > 0) {
    if (OfResult<> decoded = decode_field(reader, match, known, seen); !decoded) {
      return of_fail(decoded.error());
    }
  }
  return match;
}

OfResult<match::Match> decode_match(Reader& reader) {
  const uint16_t type = reader.u16();
  const uint16_t length = reader.u16();
  if (!reader.ok()) return of_fail(error::kMatchBadLen);
  if (type != kMatchTypeOxm) return of_fail(error::kMatchBadType);
  if (length < 4) return of_fail(error::kMatchBadLen);
  Reader fields(reader.bytes(length - 4u));
  reader.skip((8 - length % 8) % 8);
  if (!reader.ok()) return of_fail(error::kMatchBadLen);
  return decode_oxm_fields(fields);
}

void encode_match(Writer& writer, std::span<const MatchField> fields) {
  const size_t start = writer.size();
  writer.u16(kMatchTypeOxm);
  writer.u16(0);
  for (const MatchField& field : fields) match::encode_oxm(writer, field);
  writer.patch16(start + 2, writer.size() - start);
  writer.pad8(start);
}

}  // namespace headrace::openflow
