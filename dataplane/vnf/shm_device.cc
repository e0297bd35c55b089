// SPDX-License-Identifier: Apache-2.0
#include "vnf/shm_device.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/prefetch.h"
#include "vnf/output.h"

namespace headrace::vnf {
namespace {

/// Packets per call at most.
constexpr size_t kMaxBurst = Output::kBufferSize;

/// Whether a later attempt may succeed: the switch has not started, has not made the port, or is
/// still reclaiming the buffers of the port's last user.
bool is_transient(int error) {
  return error == -ENOENT || error == -ECONNREFUSED || error == -EBUSY || error == -EPIPE;
}

}  // namespace

Result<std::unique_ptr<Device>> ShmDevice::open(const PortConfig& config) {
  std::unique_ptr<ShmDevice> device(new ShmDevice(config));
  device->mac_ = config.mac.value_or(MacAddress{});
  if (auto kept = device->update_link(); !kept) return tl::unexpected(kept.error());
  return device;
}

ShmDevice::~ShmDevice() {
  if (attached_.load()) {
    memory_->collect();
    end_.free_all();
    end_.block().user.store(0, std::memory_order_release);
  }
  if (connection_ >= 0) close(connection_);
}

Result<> ShmDevice::update_link() {
  const bool by_memory = !config_.shm->memory.empty();
  if (attached_.load(std::memory_order_relaxed)) {
    if (by_memory) return {};
    const bool up = shm::is_connected(connection_);
    note_link(up);
    if (up) return {};
    return fail("port {}: the switch at {} is gone, or has removed the port", config_.name,
                config_.shm->socket);
  }
  return by_memory ? attach_memory() : attach();
}

Result<> ShmDevice::attach() {
  shm::Attached attached;
  const int error =
      shm::request_port(config_.shm->socket.c_str(), config_.shm->port.c_str(), attached);
  if (is_transient(error)) {
    log::debug("port {}: not attached yet: {}", config_.name, std::strerror(-error));
    return {};
  }
  if (error != 0) {
    return fail("port {}: {} at {}: {}", config_.name, config_.shm->port, config_.shm->socket,
                std::strerror(-error));
  }
  connection_ = attached.connection;
  auto used = use_port(attached.region, attached.port);
  close(attached.region);
  return used;
}

Result<> ShmDevice::attach_memory() {
  const std::string& path = config_.shm->memory;
  const int region = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (region < 0) return fail("port {}: {}: {}", config_.name, path, std::strerror(errno));
  auto used = use_port(region, std::nullopt);
  close(region);
  return used;
}

Result<> ShmDevice::use_port(int region, std::optional<uint32_t> port) {
  auto memory = ShmMemory::of(region);
  if (!memory) return tl::unexpected(memory.error());
  memory_ = std::move(*memory);
  int error = 0;
  if (!port) {
    error = shm::VnfEnd::find(memory_->octets(), config_.shm->port.c_str(), port.emplace());
  }
  if (error == 0) error = end_.bind(memory_->octets(), *port);
  if (error != 0) {
    return fail("port {}: {}: {}", config_.name, config_.shm->port, std::strerror(-error));
  }
  if (!config_.mac) mac_ = {0x02, 0x48, 0x52, 1, 0, static_cast<uint8_t>(*port)};
  end_.block().user.store(static_cast<uint32_t>(getpid()), std::memory_order_release);
  attached_.store(true, std::memory_order_release);
  note_link(true);
  return {};
}

uint16_t ShmDevice::rx(std::span<rte_mbuf*> packets) noexcept {
  if (!attached_.load(std::memory_order_acquire)) return 0;
  memory_->collect();
  std::array<shm::Packet, kMaxBurst> came;
  const size_t room = std::min(packets.size(), came.size());
  const uint32_t count = end_.rx(std::span(came).first(room));
  for (uint32_t i = 0; i < count; ++i) prefetch_to_write(memory_->mbufs().mbuf(came[i].buffer));
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count; ++i) {
    memory_->set_owner(came[i].buffer, end_);
    rte_mbuf* packet = memory_->mbufs().mbuf(came[i].buffer);
    rte_pktmbuf_reset(packet);
    packet->data_off = came[i].begin;
    packet->data_len = came[i].length;
    packet->pkt_len = came[i].length;
    bytes += came[i].length;
    packets[i] = packet;
  }
  if (count > 0) {
    rx_packets_.add(count);
    rx_bytes_.add(bytes);
  }
  if (const uint64_t malformed = end_.malformed() - malformed_.read(); malformed > 0) {
    malformed_.add(malformed);
  }
  return static_cast<uint16_t>(count);
}

shm::Packet ShmDevice::copy(rte_mbuf* packet) noexcept {
  shm::Packet made = kNone;
  if (packet->pkt_len > end_.room() - shm::kHeadroom || end_.alloc({&made, 1}) == 0) return kNone;
  made.length = static_cast<uint16_t>(packet->pkt_len);
  uint8_t* to = end_.data(made);
  const void* from = rte_pktmbuf_read(packet, 0, packet->pkt_len, to);
  if (from != to) std::memcpy(to, from, packet->pkt_len);
  memory_->set_owner(made.buffer, end_);
  return made;
}

shm::Packet ShmDevice::to_descriptor(rte_mbuf* packet) noexcept {
  if (!memory_->mbufs().can_pass(packet)) return copy(packet);
  return {.buffer = shm::MbufSet::buffer_of(packet),
          .begin = packet->data_off,
          .length = packet->data_len};
}

uint16_t ShmDevice::tx(std::span<rte_mbuf*> packets) noexcept {
  if (!attached_.load(std::memory_order_acquire)) {
    tx_dropped_.add(packets.size());
    return 0;
  }
  std::array<shm::Packet, kMaxBurst> going;
  const size_t room = std::min(packets.size(), going.size());
  uint32_t count = 0;
  while (count < room) {
    going[count] = to_descriptor(packets[count]);
    if (going[count].buffer == kNone.buffer) break;
    ++count;
  }
  // A batch of packets with the same owning port at a time; nearly always there is one. The call is
  // made without packets too, since it answers the switch's requests for direct links.
  uint32_t sent = 0;
  do {
    shm::VnfEnd* owner = count > 0 ? memory_->owner(going[sent].buffer) : &end_;
    uint32_t end = sent;
    while (end < count && memory_->owner(going[end].buffer) == owner) ++end;
    const uint32_t put = end_.tx(std::span(going).subspan(sent, end - sent), *owner);
    sent += put;
    if (sent < end) break;
  } while (sent < count);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const bool copied = !memory_->mbufs().can_pass(packets[i]);
    if (i < sent) {
      bytes += going[i].length;
      if (copied) rte_pktmbuf_free(packets[i]);
    } else if (copied) {
      end_.free({&going[i], 1});
    }
  }
  tx_packets_.add(sent);
  tx_bytes_.add(bytes);
  if (sent < packets.size()) tx_dropped_.add(packets.size() - sent);
  return static_cast<uint16_t>(sent);
}

}  // namespace headrace::vnf
