// SPDX-License-Identifier: Apache-2.0
// What leaves by a patch and comes in at its other end in the same call: bursts of the patch queue,
// those for a LOCAL port where tunnels end, and fragments on their way to be whole.
#pragma once

#include "pipeline/execute/execution.h"

namespace headrace::pipeline {

/// Runs the bursts of the patch queue, and those that come of them, to their ends.
void run_patches(Execution& x) noexcept;

}  // namespace headrace::pipeline
