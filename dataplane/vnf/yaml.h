// SPDX-License-Identifier: Apache-2.0
// YAML as JSON: one reader of configurations then serves both.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace headrace::vnf {

/// The JSON of a YAML document. Plain scalars have the types of YAML 1.2's core schema (null,
/// booleans, decimal and 0x integers, floats); quoted ones are strings. Fails with line and column
/// for what is no YAML or not UTF-8, for a key that occurs twice and for keys that are no scalars.
Result<nlohmann::json> json_of_yaml(const std::string& text);

}  // namespace headrace::vnf
