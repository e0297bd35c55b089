// SPDX-License-Identifier: Apache-2.0
// For tests: a real ovsdb-server with the stock schema in a temporary directory, and ovs-vsctl.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace headrace::ovsdb {

/// A program's output and exit status.
struct ProgramResult {
  int exit_status;     ///< -1 if it couldn't be run or was killed
  std::string output;  ///< stdout and stderr
};

/// Runs a program (found by PATH) until it exits. No shell.
ProgramResult run_program(const std::vector<std::string>& argv);

/// Starts the server in its constructor; the destructor stops it and removes the directory.
class OvsdbServer {
 public:
  OvsdbServer();
  ~OvsdbServer();
  OvsdbServer(const OvsdbServer&) = delete;
  OvsdbServer& operator=(const OvsdbServer&) = delete;

  /// Whether the server listens; false if Open vSwitch isn't installed.
  [[nodiscard]] bool is_up() const { return pid_ > 0; }
  [[nodiscard]] std::string target() const { return "unix:" + directory_ + "/db.sock"; }
  /// ovs-vsctl with a time limit of 10 s.
  ProgramResult vsctl(std::vector<std::string> arguments) const;
  /// Kills the server and starts it again on the same database.
  void restart();

 private:
  void start();
  void kill_server();

  std::string directory_;
  pid_t pid_{0};
};

}  // namespace headrace::ovsdb
