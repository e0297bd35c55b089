// SPDX-License-Identifier: Apache-2.0
// The action set that write-actions leave (section 5.10), as a list of actions.
#pragma once

#include "pipeline/terms/actions.h"

namespace headrace::pipeline {

/// What runs of the actions `written`, oldest first: the last of each kind, in the order of sets;
/// with a group, no output.
[[nodiscard]] ActionList written_set(const ActionList& written);

}  // namespace headrace::pipeline
