// SPDX-License-Identifier: Apache-2.0
// A function's output: packets are sent on a port, or dropped for a named reason.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/counter.h"

namespace headrace::vnf {

/// Why a packet was dropped. Each has its counter; names are in kDropReasonNames.
enum class DropReason : uint8_t {
  tx_queue_full,    ///< the port's transmit queue
  malformed,        ///< shorter than its headers say, bad version, length or checksum
  not_for_us,       ///< addressed to another MAC, or a protocol that the function doesn't support
  ttl_expired,      ///< IPv4 TTL or IPv6 hop limit ran out
  no_route,         ///< no prefix covers the destination
  no_neighbor,      ///< the next hop's MAC address isn't known (yet)
  denied,           ///< by a rule
  policed,          ///< by a meter
  queue_full,       ///< a scheduler's queue
  no_translation,   ///< no NAT state for a packet from outside
  ports_exhausted,  ///< NAT has no port left for a new flow
  table_full,       ///< the function's state table
  no_buffer,        ///< the packet pool is empty
  crypto_failed,    ///< authentication or decryption failed
  replayed,         ///< an ESP sequence number seen before or older than the window
  unsupported,      ///< fragments where ports are needed, and other unsupported packets
  discarded,        ///< intentionally (a sink)
  count_
};

inline constexpr size_t kDropReasons = static_cast<size_t>(DropReason::count_);

inline constexpr std::array<std::string_view, kDropReasons> kDropReasonNames = {
    "tx_queue_full",   "malformed",  "not_for_us", "ttl_expired",   "no_route",
    "no_neighbor",     "denied",     "policed",    "queue_full",    "no_translation",
    "ports_exhausted", "table_full", "no_buffer",  "crypto_failed", "replayed",
    "unsupported",     "discarded"};

/// Per-port transmit buffers. The worker flushes them at the end of each polling round; send()
/// flushes a full one.
///
/// Thread safety: one thread sends; any thread may read the counters.
class Output {
 public:
  /// Packets that a port's buffer holds before it is flushed.
  static constexpr uint16_t kBufferSize = 64;

  explicit Output(size_t ports) : buffers_(ports) {}
  virtual ~Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Takes ownership of the packet.
  void send(uint16_t port, rte_mbuf* packet) noexcept {
    Buffer& buffer = buffers_[port];
    buffer.packets[buffer.size++] = packet;
    if (buffer.size == kBufferSize) flush(port);
  }
  void send(uint16_t port, std::span<rte_mbuf*> packets) noexcept {
    for (rte_mbuf* packet : packets) send(port, packet);
  }

  /// Takes ownership of the packet, counts it, frees it.
  void drop(rte_mbuf* packet, DropReason reason) noexcept {
    drops_[static_cast<size_t>(reason)].add(1);
    rte_pktmbuf_free(packet);
  }
  void drop(std::span<rte_mbuf*> packets, DropReason reason) noexcept {
    drops_[static_cast<size_t>(reason)].add(packets.size());
    rte_pktmbuf_free_bulk(packets.data(), static_cast<unsigned>(packets.size()));
  }
  /// Counts a packet that could not be made because no buffer was free.
  void count_drop(DropReason reason) noexcept { drops_[static_cast<size_t>(reason)].add(1); }

  /// Transmits the buffered packets of `port`; those that the port doesn't take are dropped as
  /// tx_queue_full.
  void flush(uint16_t port) noexcept {
    Buffer& buffer = buffers_[port];
    if (buffer.size == 0) return;
    const uint16_t size = buffer.size;
    buffer.size = 0;
    const uint16_t sent = transmit(port, {buffer.packets.data(), size});
    if (sent < size) {
      drop({buffer.packets.data() + sent, static_cast<size_t>(size - sent)},
           DropReason::tx_queue_full);
    }
  }
  void flush_all() noexcept {
    for (uint16_t port = 0; port < buffers_.size(); ++port) flush(port);
  }

  [[nodiscard]] size_t ports() const { return buffers_.size(); }
  [[nodiscard]] uint64_t drops(DropReason reason) const {
    return drops_[static_cast<size_t>(reason)].read();
  }

 protected:
  /// Sends a prefix of `packets` and returns its length.
  virtual uint16_t transmit(uint16_t port, std::span<rte_mbuf*> packets) noexcept = 0;

 private:
  struct Buffer {
    uint16_t size{0};
    std::array<rte_mbuf*, kBufferSize> packets;
  };
  std::vector<Buffer> buffers_;
  std::array<Counter, kDropReasons> drops_;
};

}  // namespace headrace::vnf
