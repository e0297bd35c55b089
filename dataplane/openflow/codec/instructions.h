// SPDX-License-Identifier: Apache-2.0
// Instructions on the wire.
//
// Source: OpenFlow 1.3.5, section 7.2.4.
#pragma once

#include "openflow/codec/actions.h"
#include "openflow/codec/errors.h"
#include "openflow/codec/wire.h"
#include "pipeline/terms/flow_types.h"

namespace headrace::openflow {

/// Decodes exactly the instructions that fill `bytes`, for a flow in `table_id`. A goto must lead
/// onwards; each kind may occur once; the actions must fit what `known` say of the packets.
OfResult<pipeline::InstructionList> decode_instructions(Bytes bytes, uint8_t table_id,
                                                        const KnownHeaders& known);
/// Appends the instructions.
void encode_instructions(Writer& writer, const pipeline::InstructionList& instructions);

}  // namespace headrace::openflow
