// SPDX-License-Identifier: Apache-2.0
#include "traffic/ports/shm_port.h"

#include <rte_memcpy.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "shm/attach_client.h"
#include "traffic/ports/traffic_port.h"

namespace headrace::traffic {
namespace {

constexpr size_t kMaxBurst = 64;

}  // namespace

Result<std::optional<ShmPortName>> ShmPort::read(const std::string& devargs) {
  if (devargs != "shm" && !devargs.starts_with("shm,")) return std::nullopt;
  ShmPortName name{.socket = devarg(devargs, "socket"), .port = devarg(devargs, "port")};
  if (name.socket.empty() || name.port.empty()) {
    return fail("shm needs socket=PATH and port=NAME, as in shm,socket=/run/group.shm,port=p0");
  }
  return name;
}

Result<std::unique_ptr<ShmPort>> ShmPort::open(const ShmPortName& name, uint16_t max_frame) {
  shm::Attached attached;
  int error = shm::request_port(name.socket.c_str(), name.port.c_str(), attached);
  if (error != 0) {
    return fail("shm port {} at {}: {}", name.port, name.socket, std::strerror(-error));
  }
  std::unique_ptr<ShmPort> port(new ShmPort);
  port->connection_ = attached.connection;
  port->memory_ = shm::map_region(attached.region);
  error = port->memory_.empty() ? -errno : port->end_.bind(port->memory_, attached.port);
  close(attached.region);
  if (error != 0) return fail("shm port {}: its region: {}", name.port, std::strerror(-error));
  if (port->end_.room() < max_frame + shm::kHeadroom) {
    return fail("shm port {}: its buffers have room for frames of {} octets, not {}", name.port,
                port->end_.room() - shm::kHeadroom, max_frame);
  }
  port->end_.block().user.store(static_cast<uint32_t>(getpid()), std::memory_order_release);
  return port;
}

ShmPort::~ShmPort() {
  if (end_.n_buffers() > 0) {
    end_.free_all();
    end_.block().user.store(0, std::memory_order_release);
  }
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
  if (connection_ >= 0) close(connection_);
}

bool ShmPort::is_up() const {
  return shm::is_connected(connection_);
}

uint16_t ShmPort::receive(rte_mempool* pool, std::span<rte_mbuf*> packets) noexcept {
  std::array<shm::Packet, kMaxBurst> came;
  const size_t room = std::min(packets.size(), came.size());
  const uint32_t count = end_.rx(std::span(came).first(room));
  if (count == 0) return 0;
  const std::span<const shm::Packet> received = std::span(came).first(count);
  if (rte_pktmbuf_alloc_bulk(pool, packets.data(), count) != 0) {
    counts_.no_buffer.add(count);
    end_.free(received);
    return 0;
  }
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count; ++i) {
    rte_mbuf* packet = packets[i];
    const auto length = std::min<uint16_t>(came[i].length, rte_pktmbuf_tailroom(packet));
    rte_memcpy(rte_pktmbuf_mtod(packet, void*), end_.data(came[i]), length);
    packet->data_len = length;
    packet->pkt_len = length;
    bytes += length;
  }
  end_.free(received);
  counts_.rx_packets.add(count);
  counts_.rx_bytes.add(bytes);
  return static_cast<uint16_t>(count);
}

uint16_t ShmPort::send(std::span<rte_mbuf*> packets) noexcept {
  std::array<shm::Packet, kMaxBurst> going;
  const size_t wanted = std::min(packets.size(), going.size());
  const uint32_t got = end_.alloc(std::span(going).first(wanted));
  for (uint32_t i = 0; i < got; ++i) {
    const rte_mbuf* packet = packets[i];
    going[i].length = packet->data_len;  // fits: no frame is longer than the port's `max_frame`
    rte_memcpy(end_.data(going[i]), rte_pktmbuf_mtod(packet, const void*), packet->data_len);
  }
  const std::span<const shm::Packet> made = std::span(going).first(got);
  const uint32_t sent = end_.tx(made);
  if (sent < got) end_.free(made.subspan(sent));
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < sent; ++i) bytes += going[i].length;
  rte_pktmbuf_free_bulk(packets.data(), sent);
  counts_.tx_packets.add(sent);
  counts_.tx_bytes.add(bytes);
  return static_cast<uint16_t>(sent);
}

}  // namespace headrace::traffic
