// SPDX-License-Identifier: Apache-2.0
#include "shm/attach_client.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shm/attach.h"

namespace headrace::shm {
namespace {

/// Connects to a Unix stream socket; returns the descriptor, or a negative errno.
int connect_to(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) return -ENAMETOOLONG;
  std::strcpy(address.sun_path, path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    close(fd);
    return -error;
  }
  return fd;
}

/// Requests a port; returns 0, or a negative errno.
int request(int connection, const char* name, Attached& attached) {
  AttachRequest request;
  request.process = static_cast<uint32_t>(getpid());
  if (std::strlen(name) >= kNameSize) return -ENOENT;
  std::strncpy(request.name, name, kNameSize - 1);
  if (send(connection, &request, sizeof request, MSG_NOSIGNAL) != sizeof request) return -EPIPE;
  AttachReply reply;
  iovec part{&reply, sizeof reply};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(connection, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) != sizeof reply) return -EPIPE;
  if (reply.status != 0) return reply.status < 0 ? reply.status : -EPROTO;
  const cmsghdr* passed = CMSG_FIRSTHDR(&message);
  if (passed == nullptr || passed->cmsg_type != SCM_RIGHTS) return -EPROTO;
  std::memcpy(&attached.region, CMSG_DATA(passed), sizeof attached.region);
  attached.port = reply.port;
  return 0;
}

}  // namespace

int request_port(const char* path, const char* name, Attached& attached) {
  const int connection = connect_to(path);
  if (connection < 0) return connection;
  if (const int error = request(connection, name, attached); error != 0) {
    close(connection);
    return error;
  }
  attached.connection = connection;
  return 0;
}

std::span<uint8_t> map_region(int region) {
  struct stat status {};
  if (fstat(region, &status) != 0) return {};
  const auto size = static_cast<size_t>(status.st_size);
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, region, 0);
  if (base == MAP_FAILED) return {};
  return {static_cast<uint8_t*>(base), size};
}

bool is_connected(int connection) {
  char octet = 0;
  const auto got = recv(connection, &octet, 1, MSG_DONTWAIT | MSG_PEEK);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace headrace::shm
