// SPDX-License-Identifier: Apache-2.0
// headrace-vnf as an object, run by main() after parsing the command line.
#pragma once

#include <string>

#include "base/result.h"
#include "vnf/registry.h"

namespace headrace::vnf {

struct ProgramOptions {
  const FunctionEntry* function{nullptr};
  std::string config_path;
  std::string ctl_path;  ///< "" = no control socket
};

/// Checks the configuration file; fails with all of its errors, one per line.
Result<> check_config(const ProgramOptions& options);

/// Runs until SIGTERM, SIGINT or the method `shutdown`. Control methods: `counters`, `cycles`,
/// `reload` (also SIGHUP), besides `ping` and `shutdown`.
Result<> run_program(const ProgramOptions& options);

}  // namespace headrace::vnf
