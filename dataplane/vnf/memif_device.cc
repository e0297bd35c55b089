// SPDX-License-Identifier: Apache-2.0
#include "vnf/memif_device.h"

#include <algorithm>
#include <array>
#include <functional>

#include "vnf/output.h"

namespace headrace::vnf {
namespace {

/// A locally administered address, the same at every start: of the socket and the interface's id.
MacAddress mac_of(const port::memif::EndpointConfig& config) {
  const uint64_t hash =
      std::hash<std::string>{}(config.socket + "#" + std::to_string(config.id) +
                               (config.role == port::memif::Role::server ? "s" : "c"));
  MacAddress mac{0x02, 0xfe};
  for (size_t i = 2; i < mac.size(); ++i) mac[i] = static_cast<uint8_t>(hash >> 8 * i);
  return mac;
}

}  // namespace

MemifDevice::MemifDevice(const PortConfig& config, port::memif::EndpointConfig endpoint,
                         rte_mempool* pool, asio::io_context& io)
    : Device(config), wanted_(std::move(endpoint)), pool_(pool), io_(io) {
  wanted_.name = config.name;
  mac_ = config.mac.value_or(mac_of(wanted_));
}

Result<> MemifDevice::keep_up() {
  if (!memif_) {
    auto opened = port::memif::Standalone::open(io_, wanted_);
    if (!opened) return fail("port {}: {}", config_.name, opened.error().message);
    memif_ = std::move(*opened);
    opened_.store(memif_.get(), std::memory_order_release);
  }
  note_link(memif_->endpoint().is_up());
  return {};
}

uint16_t MemifDevice::rx(std::span<rte_mbuf*> packets) noexcept {
  auto* const memif = opened_.load(std::memory_order_acquire);
  if (memif == nullptr) return 0;
  const uint16_t count = memif->receive(pool_, packets);
  if (count == 0) return 0;
  uint64_t bytes = 0;
  for (const rte_mbuf* packet : packets.first(count)) bytes += packet->pkt_len;
  rx_packets_.add(count);
  rx_bytes_.add(bytes);
  return count;
}

uint16_t MemifDevice::tx(std::span<rte_mbuf*> packets) noexcept {
  // Lengths are summed first: a sent packet is no longer ours.
  std::array<uint32_t, Output::kBufferSize> lengths;
  for (size_t i = 0; i < packets.size(); ++i) lengths[i] = packets[i]->pkt_len;
  auto* const memif = opened_.load(std::memory_order_acquire);
  const uint16_t sent = memif == nullptr ? 0 : memif->send(packets);
  uint64_t bytes = 0;
  for (uint16_t i = 0; i < sent; ++i) bytes += lengths[i];
  tx_packets_.add(sent);
  tx_bytes_.add(bytes);
  if (sent < packets.size()) tx_dropped_.add(packets.size() - sent);
  return sent;
}

uint64_t MemifDevice::missed() const {
  if (!memif_) return 0;
  const port::memif::QueueCounts& counts = memif_->endpoint().receive_counts(0);
  return counts.too_long.read() + counts.bad_buffer.read();
}

}  // namespace headrace::vnf
