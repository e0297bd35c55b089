// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>

namespace headrace::log {

Result<> init(std::string_view program, std::string_view level) {
  const spdlog::level::level_enum parsed = spdlog::level::from_str(std::string(level));
  // from_str() answers "off" to what it does not know.
  if (parsed == spdlog::level::off && level != "off") {
    return fail("log level '{}': use trace, debug, info, warning, error or off", level);
  }
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>(std::string(program), std::move(sink));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %n: %v", spdlog::pattern_time_type::utc);
  logger->set_level(parsed);
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
  return {};
}

}  // namespace headrace::log
