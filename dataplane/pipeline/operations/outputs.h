// SPDX-License-Identifier: Apache-2.0
// What operations have in common that send packets.
#pragma once

#include "pipeline/execute/execution.h"
#include "pipeline/program/action_program.h"

namespace headrace::pipeline {

/// In Op::ethertype of an output: it is to a pseudo-port.
inline constexpr uint16_t kToPseudoPort = 1;

inline bool is_to_pseudo_port(const Op& op) {
  return op.ethertype == kToPseudoPort;
}

/// Takes note that packets of the burst at work went somewhere, even if that port refuses them:
/// they are not dropped for want of an output.
void note_outputs(Execution& x, const OpBurst& burst) noexcept;

}  // namespace headrace::pipeline
