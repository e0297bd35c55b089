// SPDX-License-Identifier: Apache-2.0
// OXM headers and values of single fields: what matches, set-field and copy-field have in common.
//
// Source: OpenFlow 1.3.5, section 7.2.3.2; ONF EXT-109 for fields of the experimenter class.
#pragma once

#include <cstdint>
#include <optional>

#include "base/wire.h"
#include "match/fields/match.h"

namespace headrace::match {

/// The Open Networking Foundation's experimenter id.
inline constexpr uint32_t kOnfExperimenter = 0x4f4e4600;

/// An OXM header as it stands on the wire.
struct OxmHeader {
  uint16_t oxm_class;
  uint8_t field;
  bool has_mask;
  uint8_t length;  ///< octets that follow, an experimenter id included
};

OxmHeader read_oxm_header(wire::Reader& reader);

/// The field that a header names; for the experimenter class the id is read from `payload`. Nothing
/// if the switch does not have the field.
std::optional<Field> field_of_oxm(const OxmHeader& header, wire::Reader& payload);

/// True if `value` has no bits outside of the field's.
bool within_bits(const FieldInfo& entry, wire::Bytes value);

/// Appends the header of a field, as table features list them.
void encode_oxm_header(wire::Writer& writer, Field field, bool has_mask);
/// Appends a whole OXM.
void encode_oxm(wire::Writer& writer, const MatchField& field);

}  // namespace headrace::match
