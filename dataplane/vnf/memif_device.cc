// SPDX-License-Identifier: Apache-2.0
#include "vnf/memif_device.h"

#include <algorithm>
#include <array>

#include "vnf/output.h"

namespace headrace::vnf {
namespace {

/// Derived from the socket, the interface's id and the role, so the same at every start.
MacAddress mac_of(const port::memif::EndpointConfig& config) {
  return packet::mac_from_name(config.socket + "#" + std::to_string(config.id) +
                               (config.role == port::memif::Role::server ? "s" : "c"));
}

}  // namespace

MemifDevice::MemifDevice(const PortConfig& config, port::memif::EndpointConfig endpoint,
                         rte_mempool* pool, asio::io_context& io)
    : Device(config), wanted_(std::move(endpoint)), pool_(pool), io_(io) {
  wanted_.name = config.name;
  mac_ = config.mac.value_or(mac_of(wanted_));
}

Result<> MemifDevice::update_link() {
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
  // Sum up the lengths first: a sent packet is no longer ours.
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
