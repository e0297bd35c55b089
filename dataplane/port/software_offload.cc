// SPDX-License-Identifier: Apache-2.0
#include "port/software_offload.h"

#include <array>

#include "packet/offload.h"

namespace headrace::port {
namespace {

using pipeline::kBurst;

/// What is left of the packet that a device with these offloads does not do.
uint64_t not_taken(const rte_mbuf* packet, uint64_t takes) {
  const uint64_t left = packet->ol_flags & packet::kOffloadLeft;
  // Nobody's device but ours knows how long the headers of a tunnel around segments are to be.
  if ((packet->ol_flags & RTE_MBUF_F_TX_TUNNEL_MASK) != 0) return left;
  const bool version = (packet->ol_flags & takes & packet::kIpVersion) != 0;
  return left & ~(version ? takes : takes & ~packet::kSegmentsLeft);
}

}  // namespace

uint16_t SoftwareOffload::finish(uint16_t queue, std::span<rte_mbuf*> packets) noexcept {
  // Before the device looks who its peer is: vhost/device.cc relies on that order.
  const uint64_t takes = port_.tx_offloads();
  uint16_t done = 0;
  while (done < packets.size()) {
    // As many as can go together, and then one that is to be cut.
    size_t end = done;
    while (end < packets.size()) {
      rte_mbuf* packet = packets[end];
      const uint64_t left = not_taken(packet, takes);
      if ((left & packet::kSegmentsLeft) != 0) break;
      if (left != 0) packet::finish_checksum(packet);
      ++end;
    }
    if (end > done) {
      done = static_cast<uint16_t>(done + device_.tx(queue, packets.subspan(done, end - done)));
      if (done < end) return done;
    }
    if (end == packets.size()) return done;
    if (!send_segments(queue, packets[end])) return done;
    ++done;
  }
  return done;
}

bool SoftwareOffload::send_segments(uint16_t queue, rte_mbuf* packet) noexcept {
  packet::Segments segments(packet);
  std::array<rte_mbuf*, kBurst> burst;
  bool any = false;
  while (segments.left() > 0) {
    uint16_t count = 0;
    while (count < kBurst) {
      rte_mbuf* segment = segments.next();
      if (segment == nullptr) break;
      burst[count++] = segment;
    }
    const uint16_t sent = count == 0 ? 0 : device_.tx(queue, {burst.data(), count});
    any = any || sent > 0;
    if (sent == count && count != 0) continue;
    rte_pktmbuf_free_bulk(&burst[sent], count - sent);
    // The first ones not: then it is as with any packet that finds no room.
    if (!any) return false;
    dropped_.fetch_add(count - sent + segments.left(), std::memory_order_relaxed);
    break;
  }
  rte_pktmbuf_free(packet);
  return true;
}

}  // namespace headrace::port
