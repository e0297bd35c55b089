// SPDX-License-Identifier: Apache-2.0
#include "shm/headrace_port.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <new>
#include <span>

#include "shm/attach_client.h"
#include "shm/vnf_end.h"

using headrace::shm::Attached;
using headrace::shm::Packet;
using headrace::shm::VnfEnd;

static_assert(sizeof(hrp_packet) == sizeof(Packet) && alignof(hrp_packet) == alignof(Packet));
static_assert(offsetof(hrp_packet, buffer) == offsetof(Packet, buffer));
static_assert(offsetof(hrp_packet, begin) == offsetof(Packet, begin));
static_assert(offsetof(hrp_packet, length) == offsetof(Packet, length));

struct hrp_port {
  VnfEnd end;
  std::span<uint8_t> mapped;  ///< empty if the caller mapped it
  int connection{-1};
  dev_t device{0};  ///< with `file`, which region it is; 0 if the caller mapped it
  ino_t file{0};
};

namespace {

std::span<Packet> packets_at(hrp_packet* packets, uint32_t count) {
  return {reinterpret_cast<Packet*>(packets), count};
}
std::span<const Packet> packets_at(const hrp_packet* packets, uint32_t count) {
  return {reinterpret_cast<const Packet*>(packets), count};
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
  Attached attached;
  int error = headrace::shm::request_port(socket_path, name, attached);
  if (error != 0) return error;
  struct stat status {};
  fstat(attached.region, &status);
  const std::span<uint8_t> memory = headrace::shm::map_region(attached.region);
  error = memory.empty() ? -errno : bind_port(memory, name, port);
  close(attached.region);
  if (error != 0) {
    if (!memory.empty()) munmap(memory.data(), memory.size());
    close(attached.connection);
    return error;
  }
  (*port)->mapped = memory;
  (*port)->connection = attached.connection;
  (*port)->device = status.st_dev;
  (*port)->file = status.st_ino;
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

uint32_t hrp_rx(hrp_port* port, hrp_packet* packets, uint32_t room) {
  return port->end.rx(packets_at(packets, room));
}

uint32_t hrp_tx(hrp_port* port, const hrp_packet* packets, uint32_t count) {
  return port->end.tx(packets_at(packets, count));
}

uint32_t hrp_forward(hrp_port* from, hrp_port* to, const hrp_packet* packets, uint32_t count) {
  if (from->device != to->device || from->file != to->file) return 0;
  if (from->file == 0 && from->end.memory().data() != to->end.memory().data()) return 0;
  return to->end.tx(packets_at(packets, count), from->end);
}

int hrp_is_connected(const hrp_port* port) {
  return port->connection < 0 || headrace::shm::is_connected(port->connection) ? 1 : 0;
}

uint32_t hrp_alloc(hrp_port* port, hrp_packet* packets, uint32_t count) {
  return port->end.alloc(packets_at(packets, count));
}

void hrp_free(hrp_port* port, const hrp_packet* packets, uint32_t count) {
  port->end.free(packets_at(packets, count));
}

uint8_t* hrp_data(const hrp_port* port, const hrp_packet* packet) {
  return port->end.data(packets_at(packet, 1).front());
}

int hrp_set(const hrp_port* port, hrp_packet* packet, uint32_t begin, uint32_t length) {
  const uint32_t room = port->end.room();
  if (begin > room || length > room - begin) return -EINVAL;
  packet->begin = static_cast<uint16_t>(begin);
  packet->length = static_cast<uint16_t>(length);
  return 0;
}

uint32_t hrp_room(const hrp_port* port) {
  return port->end.room();
}

int hrp_is_direct(const hrp_port* port) {
  return port->end.is_direct() ? 1 : 0;
}

}  // extern "C"
