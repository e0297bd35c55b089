// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: the input as a YAML configuration (almost all JSON is YAML), read for every
// function as `headrace-vnf --check` does.
#include <string>

#include "vnf/program_config.h"
#include "vnf/registry.h"
#include "vnf/yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace::vnf;
  const auto json = json_of_yaml(std::string(reinterpret_cast<const char*>(data), size));
  if (!json) return 0;
  for (const FunctionEntry& entry : functions()) {
    ConfigErrors errors;
    ConfigReader reader(*json, "", errors);
    const ProgramConfig program = read_program(reader);
    FunctionContext context;
    for (const PortConfig& port : program.ports) context.ports.push_back({.name = port.name});
    ConfigReader function(program.function, "function", errors);
    (void)entry.make(function, context);
    function.finish();
  }
  return 0;
}
