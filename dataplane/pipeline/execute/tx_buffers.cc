// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/tx_buffers.h"

#include <algorithm>

#include "packet/free_burst.h"
#include "pipeline/execute/egress_mtu.h"

namespace headrace::pipeline {

void TxBuffers::push_aside(const Port& port, TxHook tx_hook, rte_mbuf* packet, unsigned depth,
                           WorkerCounts& counts) noexcept {
  if (tx_hook == TxHook::mirror) [[unlikely]] {
    // A tunnel's packets were seen before they were encapsulated.
    if (!port.is_tunnel) watcher_.leaving(port, packet);
    if (port.io.load(std::memory_order_relaxed) != nullptr &&
        port.ingress_tunnels.load(std::memory_order_relaxed) == nullptr) {
      push_device(port, packet, counts);
      return;
    }
  }
  if (depth > kMaxPatchDepth) {
    drop(packet, DropReason::patch_depth, counts);
    return;
  }
  PatchBurst* burst = nullptr;
  for (size_t i = patch_tail_; i > patch_head_ && burst == nullptr; --i) {
    PatchBurst& candidate = patches_[i - 1];
    if (candidate.port == &port && candidate.depth == depth) burst = &candidate;
  }
  if (burst == nullptr || burst->count == kBurst) {
    if (patch_tail_ == kPatchBursts) {
      drop(packet, DropReason::patch_depth, counts);
      return;
    }
    burst = &patches_[patch_tail_++];
    burst->port = &port;
    burst->depth = depth;
    burst->count = 0;
  }
  burst->packets[burst->count++] = packet;
  if (port.io.load(std::memory_order_relaxed) != nullptr) return;  // counted when the device has it
  PortCounts& port_counts = const_cast<Port&>(port).counts[worker_];
  add(port_counts.tx_packets, 1);
  add(port_counts.tx_bytes, packet->pkt_len);
}

/// Copies packets behind those that wait; each full buffer is sent.
void TxBuffers::gather(const Port& port, std::span<rte_mbuf*> packets, uint64_t bytes,
                       WorkerCounts& counts) noexcept {
  Buffer& buffer = buffers_[port.egress];
  while (!packets.empty()) {
    if (buffer.count == 0) {
      buffer.port = &port;
      buffer.counts = &counts;
      waiting_[n_waiting_++] = port.egress;
    }
    const size_t taken = std::min<size_t>(packets.size(), kBurst - buffer.count);
    uint64_t taken_bytes = bytes;
    if (taken < packets.size()) {
      taken_bytes = 0;
      for (const rte_mbuf* packet : packets.first(taken)) taken_bytes += packet->pkt_len;
    }
    std::copy_n(packets.begin(), taken, buffer.packets + buffer.count);
    buffer.count = static_cast<uint16_t>(buffer.count + taken);
    buffer.bytes += taken_bytes;
    bytes -= taken_bytes;
    packets = packets.subspan(taken);
    if (buffer.count == kBurst) {
      send(buffer);
      remove_waiting(port.egress);
    }
  }
}

void TxBuffers::send(const Port& port, std::span<rte_mbuf*> packets, uint64_t bytes,
                     WorkerCounts& counts) noexcept {
  const uint32_t max_frame = port.max_frame.load(std::memory_order_relaxed);
  if (may_be_too_long(packets, max_frame)) [[unlikely]] {
    packets = packets.first(drop_too_long(port, packets, max_frame, bytes, counts));
    if (packets.empty()) return;
  }
  const auto queue = static_cast<uint16_t>(worker_);
  const uint16_t sent = port.io.load(std::memory_order_acquire)->tx(queue, packets);
  PortCounts& port_counts = const_cast<Port&>(port).counts[worker_];
  if (sent < packets.size()) [[unlikely]] {
    // What tx() does not take stays ours; of those that it took, nothing may be read.
    const std::span<rte_mbuf*> left = packets.subspan(sent);
    for (rte_mbuf* packet : left) {
      bytes -= packet->pkt_len;
      free(packet);
    }
    add(port_counts.tx_dropped, left.size());
    const DropReason reason = port.live.load(std::memory_order_relaxed) ? DropReason::tx_queue_full
                                                                        : DropReason::port_down;
    add(counts.drops[static_cast<size_t>(reason)], left.size());
  }
  add(port_counts.tx_packets, sent);
  add(port_counts.tx_bytes, bytes);
}

size_t TxBuffers::drop_too_long(const Port& port, std::span<rte_mbuf*> packets, uint32_t max_frame,
                                uint64_t& bytes, WorkerCounts& counts) noexcept {
  size_t kept = 0;
  for (rte_mbuf* packet : packets) {
    if (is_too_long(packet, max_frame)) {
      bytes -= packet->pkt_len;
      drop(packet, DropReason::mtu_exceeded, counts);
    } else {
      packets[kept++] = packet;
    }
  }
  PortCounts& port_counts = const_cast<Port&>(port).counts[worker_];
  add(port_counts.tx_dropped, packets.size() - kept);
  add(port_counts.tx_mtu_exceeded, packets.size() - kept);
  return kept;
}

void TxBuffers::remove_waiting(uint32_t egress) noexcept {
  for (uint32_t i = 0; i < n_waiting_; ++i) {
    if (waiting_[i] == egress) {
      waiting_[i] = waiting_[--n_waiting_];
      return;
    }
  }
}

void TxBuffers::free_gathered() noexcept {
  packet::free_burst(std::span(to_free_).first(n_to_free_));
  n_to_free_ = 0;
}

void TxBuffers::flush() noexcept {
  for (uint32_t i = 0; i < n_waiting_; ++i) {
    Buffer& buffer = buffers_[waiting_[i]];
    if (buffer.count != 0) send(buffer);
  }
  n_waiting_ = 0;
  if (n_to_free_ != 0) free_gathered();
}

}  // namespace headrace::pipeline
