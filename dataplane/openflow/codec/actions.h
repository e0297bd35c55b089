// SPDX-License-Identifier: Apache-2.0
// Encoding, decoding and static checks of lists of actions. The wire format of each action is with
// its operation, in pipeline/operations.
//
// Source: OpenFlow 1.3.5, section 7.2.5.
#pragma once

#include "openflow/codec/errors.h"
#include "openflow/codec/wire.h"
#include "pipeline/operations/prerequisites.h"
#include "pipeline/terms/flow_types.h"

namespace headrace::openflow {

using pipeline::ActionContext;
using pipeline::KnownHeaders;

/// Decodes the actions that fill `bytes` exactly.
OfResult<pipeline::ActionList> decode_actions(Bytes bytes, ActionContext context);
/// Appends the actions.
void encode_actions(Writer& writer, const pipeline::ActionList& actions);

/// Checks that every set-field of the list has its prerequisites. `known` is what is known of the
/// packet's headers before the list, and on return, after it. The error is MATCH_INCONSISTENT.
OfResult<> check_consistency(const pipeline::ActionList& actions, KnownHeaders& known);

/// The same for an action set, which executes pops and pushes before set-fields, whatever the order
/// in which they were written (section 5.10).
OfResult<> check_set_consistency(const pipeline::ActionList& actions, const KnownHeaders& known);

}  // namespace headrace::openflow
