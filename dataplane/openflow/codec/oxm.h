// SPDX-License-Identifier: Apache-2.0
// OXM: OpenFlow's extensible match, as type-length-value fields.
//
// Decoding is strict where the specification defines an error: unknown field (BAD_FIELD), wrong
// length (BAD_LEN), a field twice (DUP_FIELD), a missing prerequisite (BAD_PREREQ), bits beyond the
// field's width (BAD_VALUE), a mask on a field that can't have one (BAD_MASK), value bits outside
// the mask (BAD_WILDCARDS). The decoded match keeps the order and the masks of the received fields,
// because replies must echo them.
//
// Source: OpenFlow 1.3.5, section 7.2.3; ONF EXT-109 for fields of the experimenter class.
#pragma once

#include <cstdint>
#include <span>

#include "match/fields/match.h"
#include "match/fields/oxm.h"
#include "openflow/codec/errors.h"
#include "openflow/codec/protocol.h"
#include "openflow/codec/wire.h"

namespace headrace::openflow {

/// Consumes an ofp_match with its padding.
OfResult<match::Match> decode_match(Reader& reader);
/// Consumes consecutive OXM fields up to the reader's end.
OfResult<match::Match> decode_oxm_fields(Reader& reader);
/// Appends an ofp_match, padded to 8 octets.
void encode_match(Writer& writer, std::span<const match::MatchField> fields);
inline void encode_match(Writer& writer, const match::Match& match) {
  encode_match(writer, match.fields);
}
}  // namespace headrace::openflow
