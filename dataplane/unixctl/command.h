// SPDX-License-Identifier: Apache-2.0
// The commands that a program serves to ovs-appctl.
//
// A command has the name and usage that `list-commands` prints, limits for the number of its
// arguments, and a handler that returns text or says why not. The registry checks the arguments, in
// the words of Open vSwitch's lib/unixctl.c, so that handlers need not. A command of OVS that a
// program does not serve is registered, too: with a sentence that says what to use.
//
// Thread safety: one thread's, the one that runs the io_context.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace headrace::unixctl {

struct Command {
  using Arguments = std::span<const std::string>;
  using Handler = std::function<Result<std::string>(Arguments arguments)>;

  static constexpr size_t kNoLimit = ~size_t{0};

  std::string name;
  std::string usage;  ///< its arguments as `list-commands` shows them
  size_t min_arguments{0};
  size_t max_arguments{0};
  Handler run;  ///< may be null if `instead` is not empty
  /// Of a command that is OVS's and not served: the error, which names the alternative.
  std::string instead{};
};

class Commands {
 public:
  /// Knows `list-commands` and `version`, which answers `version`.
  explicit Commands(std::string version);
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  /// Adds a command, or replaces the one of that name.
  void add(Command command);

  /// Runs a command: its text, or an error whose message is for the operator.
  [[nodiscard]] Result<std::string> run(std::string_view name, Command::Arguments arguments) const;

 private:
  [[nodiscard]] std::string list() const;

  std::map<std::string, Command, std::less<>> commands_;
};

}  // namespace headrace::unixctl
