// SPDX-License-Identifier: Apache-2.0
// The version of Headrace, as meson.build states it.
#pragma once

#include <string_view>

namespace headrace {

inline constexpr std::string_view kVersion = HEADRACE_VERSION;

}  // namespace headrace
