// SPDX-License-Identifier: Apache-2.0
#include "unixctl/pidfile.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace headrace::unixctl {
namespace {

struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

/// The process that holds the lock of the file, or 0.
pid_t holder_of(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return 0;
  struct flock lock = whole_file(F_WRLCK);
  const bool held = ::fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  ::close(fd);
  return held ? lock.l_pid : 0;
}

}  // namespace

Result<std::unique_ptr<Pidfile>> Pidfile::make(const std::string& path) {
  if (const pid_t holder = holder_of(path); holder != 0) {
    return fail("pidfile {}: process {} runs with it; stop it or give --pidfile another path", path,
                holder);
  }
  const std::string made = fmt::format("{}.tmp{}", path, ::getpid());
  const int fd = ::open(made.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return fail("pidfile {}: {}", made, std::strerror(errno));
  const std::string text = fmt::format("{}\n", ::getpid());
  struct flock lock = whole_file(F_WRLCK);
  if (::fcntl(fd, F_SETLK, &lock) != 0 ||
      ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::rename(made.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(made.c_str());
    ::close(fd);
    return fail("pidfile {}: {}", path, std::strerror(error));
  }
  return std::unique_ptr<Pidfile>(new Pidfile(path, fd));
}

Pidfile::~Pidfile() {
  ::unlink(path_.c_str());
  ::close(fd_);
}

}  // namespace headrace::unixctl
