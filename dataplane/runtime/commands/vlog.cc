// SPDX-License-Identifier: Apache-2.0
// vlog/...: the level of the log. There is one log, on stderr ("console"), for all modules.
#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/log.h"
#include "runtime/commands/commands.h"

namespace headrace::runtime {
namespace {

using Arguments = unixctl::Command::Arguments;

struct Level {
  std::string_view name;  ///< OVS's
  spdlog::level::level_enum level;
};
constexpr std::array<Level, 6> kLevels = {{{"off", spdlog::level::off},
                                           {"emer", spdlog::level::critical},
                                           {"err", spdlog::level::err},
                                           {"warn", spdlog::level::warn},
                                           {"info", spdlog::level::info},
                                           {"dbg", spdlog::level::debug}}};

std::string_view name_of(spdlog::level::level_enum level) {
  if (level == spdlog::level::trace) return "dbg";
  const auto* const found = std::find_if(
      kLevels.begin(), kLevels.end(), [level](const Level& each) { return each.level == level; });
  return found == kLevels.end() ? "off" : found->name;
}

/// The words of a spec, which stand in any order: [module][:destination][:level].
Result<std::optional<spdlog::level::level_enum>> parse(const std::string& spec) {
  std::optional<spdlog::level::level_enum> level;
  size_t begin = 0;
  while (begin <= spec.size()) {
    const size_t end = std::min(spec.find_first_of(" ,:", begin), spec.size());
    std::string word = spec.substr(begin, end - begin);
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    begin = end + 1;
    const auto* const found = std::find_if(
        kLevels.begin(), kLevels.end(), [&word](const Level& each) { return each.name == word; });
    if (found != kLevels.end()) {
      level = found->level;
    } else if (word == "syslog" || word == "file") {
      return fail("destination \"{}\" is not served: the log goes to stderr; give console or any",
                  word);
    } else if (!word.empty() && word != "any" && word != "console") {
      return fail("no destination, level, or module \"{}\"", word);
    }
  }
  return level;
}

Result<std::string> set(Arguments arguments) {
  // All of them, before the first is applied.
  std::optional<spdlog::level::level_enum> level;
  for (const std::string& spec : arguments) {
    const auto parsed = parse(spec);
    if (!parsed) return tl::unexpected(parsed.error());
    // As in OVS, a spec without a level means all.
    level = parsed->value_or(spdlog::level::debug);
  }
  if (level) spdlog::set_level(*level);
  return "";
}

Result<std::string> list(Arguments) {
  std::string level(name_of(spdlog::get_level()));
  std::transform(level.begin(), level.end(), level.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return fmt::format("                 console\n                 -------\n{:<16}  {:>4}\n", "any",
                     level);
}

}  // namespace

void add_vlog_commands(unixctl::Commands& commands) {
  commands.add({.name = "vlog/set",
                .usage = "{[any][:console][:level]}...",
                .min_arguments = 1,
                .max_arguments = unixctl::Command::kNoLimit,
                .run = set});
  commands.add({.name = "vlog/list", .usage = "", .run = list});
}

}  // namespace headrace::runtime
