// SPDX-License-Identifier: Apache-2.0
// headrace-vnf: one sample network function between its ports. See docs/vnf.md.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/log.h"
#include "base/version.h"
#include "vnf/program.h"

namespace {

std::string describe_functions() {
  std::string text = "Functions:\n";
  for (const auto& entry : headrace::vnf::functions()) {
    text += fmt::format("  {:<12} {}\n", entry.name, entry.summary);
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"A sample network function between DPDK ports or kernel interfaces."};
  app.footer(describe_functions());
  std::string function;
  std::string log_level = "info";
  bool check = false;
  headrace::vnf::ProgramOptions options;
  app.add_option("function", function, "which function; see below")->required();
  app.add_option("--config", options.config_path,
                 "the configuration file: JSON, or YAML by its name (.yaml, .yml)")
      ->required();
  app.add_option("--ctl", options.ctl_path, "where to serve the control socket");
  app.add_option("--log-level", log_level, "trace, debug, info, warning, error or off");
  app.add_flag("--check", check, "validate the configuration and exit");
  CLI11_PARSE(app, argc, argv);

  const auto failed = [](const std::string& message) {
    std::fprintf(stderr, "headrace-vnf: %s\n", message.c_str());
    return 1;
  };
  if (const auto logging = headrace::log::init("headrace-vnf", log_level); !logging) {
    return failed(logging.error().message);
  }
  options.function = headrace::vnf::find_function(function);
  if (options.function == nullptr) {
    return failed(fmt::format("no function '{}'\n{}", function, describe_functions()));
  }
  const auto done =
      check ? headrace::vnf::check_config(options) : headrace::vnf::run_program(options);
  if (!done) return failed(done.error().message);
  if (check) std::printf("%s: in order\n", options.config_path.c_str());
  return 0;
}
