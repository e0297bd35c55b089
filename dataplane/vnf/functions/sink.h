// SPDX-License-Identifier: Apache-2.0
// `sink`: frees every packet; the ports' counters give their number. No configuration.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_sink(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
