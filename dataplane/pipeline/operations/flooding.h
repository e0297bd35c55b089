// SPDX-License-Identifier: Apache-2.0
// Copies to many ports: what ALL and FLOOD have in common.
#pragma once

#include "pipeline/execute/execution.h"
#include "pipeline/operations/reference_packet.h"

namespace headrace::pipeline {

/// Sends a copy of each packet to every port but the one that it came in by; frees the packets if
/// `burst.last`.
void send_to_all(Execution& x, OpBurst& burst);
void reference_send_to_all(ReferencePacket& packet, const OutputAction&);

}  // namespace headrace::pipeline
