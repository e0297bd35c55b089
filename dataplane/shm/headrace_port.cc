// SPDX-License-Identifier: Apache-2.0
#include "shm/headrace_port.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>

#include "shm/attach.h"
#include "shm/vnf_end.h"

using headrace::shm::AttachReply;
using headrace::shm::AttachRequest;
using headrace::shm::kNameSize;
using headrace::shm::VnfEnd;

struct hrp_port {
  VnfEnd end;
  std::span<uint8_t> mapped;  ///< empty if the caller mapped it
  int connection{-1};
};

namespace {

/// Connects to a Unix stream socket; the descriptor, or a negative errno.
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

/// Asks for a port; the region's descriptor, or a negative errno.
int ask(int connection, const char* name) {
  AttachRequest request;
  request.process = static_cast<uint32_t>(getpid());
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
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(passed), sizeof fd);
  return fd;
}

/// Maps a region's descriptor whole and closes it; empty with errno if it can't be.
std::span<uint8_t> map(int fd) {
  struct stat status {};
  void* base = MAP_FAILED;
  size_t size = 0;
  if (fstat(fd, &status) == 0) {
    size = static_cast<size_t>(status.st_size);
    base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  }
  const int error = errno;
  close(fd);
  errno = error;
  if (base == MAP_FAILED) return {};
  return {static_cast<uint8_t*>(base), size};
}

int bind_port(std::span<uint8_t> memory, const char* name, hrp_port** made) {
  uint32_t number = 0;
  if (const int error = VnfEnd::find(memory, name, number); error != 0) return error;
  auto* port = new (std::nothrow) hrp_port;
  if (port == nullptr) return -ENOMEM;
  port->end.bind(memory, number);
  port->end.block().user.store(static_cast<uint32_t>(getpid()), std::memory_order_release);
  *made = port;
  return 0;
}

}  // namespace

extern "C" {

int hrp_attach(const char* socket_path, const char* name, hrp_port** port) {
  const int connection = connect_to(socket_path);
  if (connection < 0) return connection;
  const int fd = ask(connection, name);
  if (fd < 0) {
    close(connection);
    return fd;
  }
  const std::span<uint8_t> memory = map(fd);
  const int error = memory.empty() ? -errno : bind_port(memory, name, port);
  if (error != 0) {
    if (!memory.empty()) munmap(memory.data(), memory.size());
    close(connection);
    return error;
  }
  (*port)->mapped = memory;
  (*port)->connection = connection;
  return 0;
}

int hrp_attach_memory(void* memory, size_t size, const char* name, hrp_port** port) {
  return bind_port({static_cast<uint8_t*>(memory), size}, name, port);
}

void hrp_detach(hrp_port* port) {
  if (port == nullptr) return;
  port->end.free_all();
  port->end.block().user.store(0, std::memory_order_release);
  if (!port->mapped.empty()) munmap(port->mapped.data(), port->mapped.size());
  if (port->connection >= 0) close(port->connection);
  delete port;
}

uint32_t hrp_rx(hrp_port* port, uint32_t* packets, uint32_t room) {
  return port->end.rx({packets, room});
}

uint32_t hrp_tx(hrp_port* port, const uint32_t* packets, uint32_t count) {
  return port->end.tx({packets, count});
}

uint32_t hrp_alloc(hrp_port* port, uint32_t* buffers, uint32_t count) {
  return port->end.alloc({buffers, count});
}

void hrp_free(hrp_port* port, const uint32_t* buffers, uint32_t count) {
  port->end.free({buffers, count});
}

uint8_t* hrp_data(hrp_port* port, uint32_t packet) {
  return port->end.data(packet);
}

uint32_t hrp_length(const hrp_port* port, uint32_t packet) {
  return port->end.header(packet).length;
}

int hrp_set(hrp_port* port, uint32_t packet, uint32_t begin, uint32_t length) {
  const uint32_t room = port->end.room();
  if (begin > room || length > room - begin) return -EINVAL;
  port->end.header(packet).begin = begin;
  port->end.header(packet).length = length;
  return 0;
}

uint32_t hrp_headroom(const hrp_port* port, uint32_t packet) {
  return port->end.header(packet).begin;
}

uint32_t hrp_room(const hrp_port* port) {
  return port->end.room();
}

int hrp_is_direct(const hrp_port* port) {
  return port->end.is_direct() ? 1 : 0;
}

}  // extern "C"
