// SPDX-License-Identifier: Apache-2.0
#include "match/fields/oxm.h"

namespace headrace::match {
namespace {

constexpr uint16_t kClassExperimenter = 0xffff;

}  // namespace

OxmHeader read_oxm_header(wire::Reader& reader) {
  const uint16_t oxm_class = reader.u16();
  const uint8_t field_and_mask = reader.u8();
  const uint8_t length = reader.u8();
  return {oxm_class, static_cast<uint8_t>(field_and_mask >> 1), (field_and_mask & 1) != 0, length};
}

std::optional<Field> field_of_oxm(const OxmHeader& header, wire::Reader& payload) {
  if (header.oxm_class == kClassExperimenter && payload.u32() != kOnfExperimenter) {
    return std::nullopt;
  }
  // The QFI has a place in the registry, but no OXM number is assigned to it yet.
  std::optional<Field> field = field_by_oxm(header.oxm_class, header.field);
  return field == Field::gtpu_qfi ? std::nullopt : field;
}

bool within_bits(const FieldInfo& entry, wire::Bytes value) {
  for (size_t i = 0; i < value.size(); ++i) {
    if ((value[i] & ~Match::full_mask_byte(entry, i)) != 0) return false;
  }
  return true;
}

void encode_oxm_header(wire::Writer& writer, Field field, bool has_mask) {
  const FieldInfo& entry = info(field);
  const bool experimenter = entry.oxm_class == kClassExperimenter;
  const size_t length = (has_mask ? entry.bytes * 2u : entry.bytes) + (experimenter ? 4u : 0u);
  writer.u16(entry.oxm_class);
  writer.u8(static_cast<uint8_t>(entry.oxm_field << 1 | (has_mask ? 1 : 0)));
  writer.u8(static_cast<uint8_t>(length));
  if (experimenter) writer.u32(kOnfExperimenter);
}

void encode_oxm(wire::Writer& writer, const MatchField& field) {
  const size_t bytes = info(field.field).bytes;
  encode_oxm_header(writer, field.field, field.has_mask);
  writer.bytes({field.value.data(), bytes});
  if (field.has_mask) writer.bytes({field.mask.data(), bytes});
}

}  // namespace headrace::match
