// SPDX-License-Identifier: Apache-2.0
// Actions as text, as ovs-ofctl dump-flows has them.
#pragma once

#include <string>

#include "pipeline/terms/flow_types.h"

namespace headrace::pipeline {

/// An operation whose arguments are its own alone is given by its name.
[[nodiscard]] std::string format_action(const Action& action);
[[nodiscard]] std::string format_actions(const ActionList& actions);
/// The port as actions name it: a number, or LOCAL, NORMAL, ...
[[nodiscard]] std::string format_port(PortNo port);

}  // namespace headrace::pipeline
