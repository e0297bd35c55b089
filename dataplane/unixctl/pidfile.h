// SPDX-License-Identifier: Apache-2.0
// A pidfile, by which `ovs-appctl -t NAME` finds a program's socket.
//
// As Open vSwitch's lib/daemon-unix.c has it: the process id in decimal and a newline, in a file
// that is made under another name, locked (fcntl) and then renamed, so that a reader sees all of it
// or nothing. The lock tells a program that runs from one that left its file behind: it goes with
// the process, however that ends. It is a lock of the process, which ovs-appctl asks for by the
// process's id: a process that opens and closes its own pidfile would lose it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace headrace::unixctl {

class Pidfile {
 public:
  /// Writes this process's id to `path`. A file that a dead process left is replaced; one that a
  /// running process holds is an error that names it.
  static Result<std::unique_ptr<Pidfile>> make(const std::string& path);
  /// Removes the file.
  ~Pidfile();
  Pidfile(const Pidfile&) = delete;
  Pidfile& operator=(const Pidfile&) = delete;

 private:
  Pidfile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;  ///< holds the lock
};

}  // namespace headrace::unixctl
