// SPDX-License-Identifier: Apache-2.0
// Logging for the control side of the three programs: one line per event on stderr, as
// `2026-01-31T12:00:00.123Z info headrace-switch: message`.
//
// Never call this from a packet path: it formats, allocates and writes. Workers count; the control
// thread reports.
//
// Thread safety: all functions but init() may be called from any thread.
#pragma once

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace headrace::log {

/// Sets the program's name and the least level shown: trace, debug, info, warning, error or off.
/// Call once, before other threads start. Fails on an unknown level.
Result<> init(std::string_view program, std::string_view level);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  spdlog::debug(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  spdlog::info(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  spdlog::warn(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  spdlog::error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace headrace::log
