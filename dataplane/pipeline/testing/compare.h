// SPDX-License-Identifier: Apache-2.0
// One comparison of the compiled pipeline with the reference.
#pragma once

#include <string>

#include "pipeline/testing/random_pipeline.h"
#include "pipeline/testing/reference.h"

namespace headrace::pipeline::test {

/// Builds a random pipeline in both, sends `n_frames` random frames through both in bursts with
/// changes of flows in between, and says how they differ: "" if they don't.
std::string compare_once(const Choose& choose, size_t n_frames);

}  // namespace headrace::pipeline::test
