// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/library_messages.h"

#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <vector>

#include "port/vhost/guest_memory.h"

namespace headrace::port::vhost {
namespace {

using Recvmsg = ssize_t (*)(int, msghdr*, int);

Recvmsg libc_recvmsg() {
  static const Recvmsg next = reinterpret_cast<Recvmsg>(::dlsym(RTLD_NEXT, "recvmsg"));
  return next;
}

/// While there is one thread, as guarded_mapping.cc.
[[gnu::constructor]] void find_libc() {
  libc_recvmsg();
}

/// Of this thread.
struct Reading {
  int socket{-1};
  std::vector<int> files;
  std::set<int> ended;  ///< sockets that the library has still to close
};
thread_local Reading reading;

std::vector<int> files_of(msghdr& header) {
  std::vector<int> files;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    files.resize((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(files.data(), CMSG_DATA(part), files.size() * sizeof(int));
    break;  // the library looks at the first, too
  }
  return files;
}

ssize_t read_for_library(int socket, msghdr* header, int flags) {
  reading.files.clear();
  reading.socket = socket;
  // The library closes it upon this, so that its number may be another's.
  if (reading.ended.erase(socket) != 0) return 0;
  const ssize_t octets = libc_recvmsg()(socket, header, flags);
  if (octets > 0) reading.files = files_of(*header);
  return octets;
}

}  // namespace

void close_files_of_message() {
  for (const int file : reading.files) ::close(file);
  reading.files.clear();
}

void end_connection_of_message() {
  if (reading.socket < 0) return;
  reading.ended.insert(reading.socket);
  ::shutdown(reading.socket, SHUT_RDWR);
}

}  // namespace headrace::port::vhost

extern "C" {

[[gnu::visibility("default")]] ssize_t recvmsg(int socket, msghdr* header, int flags) {
  using namespace headrace::port::vhost;
  if (is_library_thread()) return read_for_library(socket, header, flags);
  return libc_recvmsg()(socket, header, flags);
}

}  // extern "C"
