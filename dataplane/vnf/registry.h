// SPDX-License-Identifier: Apache-2.0
// The functions by name.
#pragma once

#include <span>
#include <string_view>

#include "vnf/function.h"

namespace headrace::vnf {

struct FunctionEntry {
  std::string_view name;     ///< as on the command line
  std::string_view summary;  ///< one line for --help
  FunctionFactory make;
};

/// All functions, sorted by name.
std::span<const FunctionEntry> functions();

/// The entry of this name, or null.
const FunctionEntry* find_function(std::string_view name);

}  // namespace headrace::vnf
