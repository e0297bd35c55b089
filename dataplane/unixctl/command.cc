// SPDX-License-Identifier: Apache-2.0
#include "unixctl/command.h"

#include <utility>

namespace headrace::unixctl {

Commands::Commands(std::string version) {
  add({.name = "list-commands", .usage = "", .run = [this](Command::Arguments) {
         return Result<std::string>(list());
       }});
  add({.name = "version", .usage = "", .run = [version = std::move(version)](Command::Arguments) {
         return Result<std::string>(version);
       }});
}

void Commands::add(Command command) {
  std::string name = command.name;
  commands_.insert_or_assign(std::move(name), std::move(command));
}

Result<std::string> Commands::run(std::string_view name, Command::Arguments arguments) const {
  const auto found = commands_.find(name);
  if (found == commands_.end()) {
    return fail(
        "\"{}\" is not a valid command (use \"list-commands\" to see a list of valid "
        "commands)",
        name);
  }
  const Command& command = found->second;
  if (!command.instead.empty()) {
    return fail("\"{}\" is not served by headrace-switch: {}", name, command.instead);
  }
  if (arguments.size() < command.min_arguments) {
    return fail("\"{}\" command requires at least {} arguments", name, command.min_arguments);
  }
  if (arguments.size() > command.max_arguments) {
    return fail("\"{}\" command takes at most {} arguments", name, command.max_arguments);
  }
  return command.run(arguments);
}

std::string Commands::list() const {
  std::string text = "The available commands are:\n";
  for (const auto& [name, command] : commands_) {
    if (command.instead.empty()) text += fmt::format("  {:<23} {}\n", name, command.usage);
  }
  return text;
}

}  // namespace headrace::unixctl
