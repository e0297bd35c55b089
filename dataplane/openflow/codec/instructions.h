// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of instructions.
//
// Source: OpenFlow 1.3.5, section 7.2.4.
#pragma once

#include "openflow/codec/actions.h"
#include "openflow/codec/errors.h"
#include "openflow/codec/wire.h"
#include "pipeline/terms/flow_types.h"

namespace headrace::openflow {

/// Decodes the instructions that fill `bytes` exactly, for a flow in `table_id`. A goto must lead
/// to a higher table; each kind may occur once; the actions must be consistent with `known`, the
/// headers that the match guarantees.
OfResult<pipeline::InstructionList> decode_instructions(Bytes bytes, uint8_t table_id,
                                                        const KnownHeaders& known);
/// Appends the instructions.
void encode_instructions(Writer& writer, const pipeline::InstructionList& instructions);

}  // namespace headrace::openflow
