// SPDX-License-Identifier: Apache-2.0
// Lists of actions on the wire, and what can be checked of them without a switch. What one action
// is on the wire stands with its operation, in pipeline/operations.
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

/// Decodes exactly the actions that fill `bytes`.
OfResult<pipeline::ActionList> decode_actions(Bytes bytes, ActionContext context);
/// Appends the actions.
void encode_actions(Writer& writer, const pipeline::ActionList& actions);

/// Checks that every set-field of the list has its prerequisites, given what is known of the packet
/// before; `known` then holds what is known after. The error is MATCH_INCONSISTENT.
OfResult<> check_consistency(const pipeline::ActionList& actions, KnownHeaders& known);

/// The same for an action set, which runs its pops and pushes before its set-fields whatever the
/// order of writing (section 5.10).
OfResult<> check_set_consistency(const pipeline::ActionList& actions, const KnownHeaders& known);

}  // namespace headrace::openflow
