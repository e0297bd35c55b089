// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/ovsdb_server_fixture.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

extern char** environ;

namespace headrace::ovsdb {
namespace {

constexpr const char* kSchema = "/usr/share/openvswitch/vswitch.ovsschema";

std::vector<char*> pointers(const std::vector<std::string>& argv) {
  std::vector<char*> result;
  for (const auto& argument : argv) {
    result.push_back(const_cast<char*>(argument.c_str()));
  }
  result.push_back(nullptr);
  return result;
}

/// Starts a program with stdout and stderr on `output_fd`; 0 if it can't be started.
pid_t spawn(const std::vector<std::string>& argv, int output_fd) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output_fd, STDERR_FILENO);
  pid_t pid = 0;
  auto arguments = pointers(argv);
  const int code =
      posix_spawnp(&pid, argv[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return code == 0 ? pid : 0;
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& argv) {
  ProgramResult result{.exit_status = -1, .output = {}};
  std::array<int, 2> pipe_fds{};
  if (pipe2(pipe_fds.data(), O_CLOEXEC) != 0) {
    return result;
  }
  const pid_t pid = spawn(argv, pipe_fds[1]);
  close(pipe_fds[1]);
  std::array<char, 4096> buffer{};
  ssize_t size = 0;
  while ((size = read(pipe_fds[0], buffer.data(), buffer.size())) > 0) {
    result.output.append(buffer.data(), static_cast<size_t>(size));
  }
  close(pipe_fds[0]);
  int status = 0;
  if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status)) {
    result.exit_status = WEXITSTATUS(status);
  }
  return result;
}

OvsdbServer::OvsdbServer() {
  std::string pattern = std::filesystem::temp_directory_path() / "headrace-ovsdb-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    return;
  }
  directory_ = pattern;
  if (run_program({"ovsdb-tool", "create", directory_ + "/db", kSchema}).exit_status == 0) {
    start();
    vsctl({"--no-wait", "init"});
  }
}

OvsdbServer::~OvsdbServer() {
  kill_server();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void OvsdbServer::start() {
  const int log =
      open((directory_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  pid_ = spawn({"ovsdb-server", directory_ + "/db", "--remote=p" + target(),
                "--unixctl=" + directory_ + "/ctl"},
               log);
  close(log);
  for (int i = 0; i < 500 && !std::filesystem::exists(directory_ + "/ctl"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void OvsdbServer::kill_server() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
    std::error_code ignored;
    std::filesystem::remove(directory_ + "/ctl", ignored);
    std::filesystem::remove(directory_ + "/db.sock", ignored);
  }
}

void OvsdbServer::restart() {
  kill_server();
  start();
}

ProgramResult OvsdbServer::vsctl(std::vector<std::string> arguments) const {
  std::vector<std::string> argv{"ovs-vsctl", "--db=" + target(), "--timeout=10"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run_program(argv);
}

}  // namespace headrace::ovsdb
