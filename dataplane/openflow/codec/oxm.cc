// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/oxm.h"

#include "openflow/codec/prerequisites.h"

namespace headrace::openflow {
namespace {

using match::Field;
using match::FieldInfo;
using match::MatchField;

constexpr uint16_t kMatchTypeOxm = 1;
constexpr uint16_t kClassExperimenter = 0xffff;
constexpr uint16_t kVidPresent = 0x1000;

struct OxmHeader {
  uint16_t oxm_class;
  uint8_t field;
  bool has_mask;
  uint8_t length;
};

OxmHeader read_header(Reader& reader) {
  const uint16_t oxm_class = reader.u16();
  const uint8_t field_and_mask = reader.u8();
  const uint8_t length = reader.u8();
  return {oxm_class, static_cast<uint8_t>(field_and_mask >> 1), (field_and_mask & 1) != 0, length};
}

/// The field that a header (and, for the experimenter class, the id after it) names.
std::optional<Field> read_field(const OxmHeader& header, Reader& payload) {
  if (header.oxm_class == kClassExperimenter && payload.u32() != kOnfExperimenter) {
    return std::nullopt;
  }
  // The QFI has a place in the registry, but no OXM number is assigned to it yet.
  std::optional<Field> field = match::field_by_oxm(header.oxm_class, header.field);
  return field == Field::gtpu_qfi ? std::nullopt : field;
}

bool within_bits(const FieldInfo& entry, Bytes value) {
  for (size_t i = 0; i < value.size(); ++i) {
    if ((value[i] & ~match::Match::full_mask_byte(entry, i)) != 0) return false;
  }
  return true;
}

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
  const OxmHeader header = read_header(reader);
  Reader payload(reader.bytes(header.length));
  if (!reader.ok()) return of_fail(error::kMatchBadLen);
  const std::optional<Field> field = read_field(header, payload);
  if (!field) return of_fail(error::kMatchBadField);
  const FieldInfo& entry = match::info(*field);
  const size_t expected = header.has_mask ? entry.bytes * 2u : entry.bytes;
  if (!payload.ok() || payload.left() != expected) return of_fail(error::kMatchBadLen);
  const uint64_t bit = uint64_t{1} << static_cast<unsigned>(*field);
  if ((seen & bit) != 0) return of_fail(error::kMatchDupField);
  seen |= bit;
  const Bytes value = payload.bytes(entry.bytes);
  if (!within_bits(entry, value)) return of_fail(error::kMatchBadValue);
  if (header.has_mask) {
    const Bytes mask = payload.bytes(entry.bytes);
    if (OfResult<> checked = check_mask(entry, value, mask); !checked) return checked;
    // Bits that the field does not have are don't-care; the compiled mask leaves them out.
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

OfResult<pipeline::SetFieldAction> decode_set_field_oxm(Reader& reader) {
  const OxmHeader header = read_header(reader);
  Reader payload(reader.bytes(header.length));
  if (!reader.ok()) return of_fail(error::kActionBadSetLen);
  const std::optional<Field> field = read_field(header, payload);
  if (!field || header.has_mask) return of_fail(error::kActionBadSetType);
  const FieldInfo& entry = match::info(*field);
  if (!entry.settable) return of_fail(error::kActionBadSetType);
  if (!payload.ok() || payload.left() != entry.bytes) return of_fail(error::kActionBadSetLen);
  const Bytes value = payload.bytes(entry.bytes);
  if (!within_bits(entry, value)) return of_fail(error::kActionBadSetArgument);
  if (*field == Field::vlan_vid && ((value[0] << 8) & kVidPresent) == 0) {
    return of_fail(error::kActionBadSetArgument);
  }
  pipeline::SetFieldAction action{*field, {}};
  std::copy(value.begin(), value.end(), action.value.begin());
  return action;
}

void encode_oxm_header(Writer& writer, Field field, bool has_mask) {
  const FieldInfo& entry = match::info(field);
  const bool experimenter = entry.oxm_class == kClassExperimenter;
  const size_t length = (has_mask ? entry.bytes * 2u : entry.bytes) + (experimenter ? 4u : 0u);
  writer.u16(entry.oxm_class);
  writer.u8(static_cast<uint8_t>(entry.oxm_field << 1 | (has_mask ? 1 : 0)));
  writer.u8(static_cast<uint8_t>(length));
  if (experimenter) writer.u32(kOnfExperimenter);
}

void encode_oxm(Writer& writer, const MatchField& field) {
  const size_t bytes = match::info(field.field).bytes;
  encode_oxm_header(writer, field.field, field.has_mask);
  writer.bytes({field.value.data(), bytes});
  if (field.has_mask) writer.bytes({field.mask.data(), bytes});
}

void encode_match(Writer& writer, std::span<const MatchField> fields) {
  const size_t start = writer.size();
  writer.u16(kMatchTypeOxm);
  writer.u16(0);
  for (const MatchField& field : fields) encode_oxm(writer, field);
  writer.patch16(start + 2, writer.size() - start);
  writer.pad8(start);
}

}  // namespace headrace::openflow
