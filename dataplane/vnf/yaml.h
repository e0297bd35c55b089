// SPDX-License-Identifier: Apache-2.0
// Converts YAML to JSON, so that one reader handles both kinds of configuration.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace headrace::vnf {

/// The JSON of a YAML document. Plain scalars have the types of YAML 1.2's core schema (null,
/// booleans, decimal and 0x integers, floats); quoted ones are strings. Fails with line and column
/// for syntax errors, for text that isn't UTF-8, for duplicate keys and for keys that aren't
/// scalars.
Result<nlohmann::json> json_of_yaml(const std::string& text);

}  // namespace headrace::vnf
