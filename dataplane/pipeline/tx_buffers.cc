// SPDX-License-Identifier: Apache-2.0
#include "pipeline/tx_buffers.h"

#include <algorithm>

namespace headrace::pipeline {

void TxBuffers::push_patch(const Port& port, rte_mbuf* packet, unsigned depth,
                           WorkerCounts& counts) noexcept {
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
  PortCounts& port_counts = const_cast<Port&>(port).counts[worker_];
  add(port_counts.tx_packets, 1);
  add(port_counts.tx_bytes, packet->pkt_len);
}

void TxBuffers::send(Buffer& buffer) noexcept {
  const Port& port = *buffer.port;
  const uint16_t count = buffer.count;
  uint64_t bytes = 0;
  for (uint16_t i = 0; i < count; ++i) bytes += buffer.packets[i]->pkt_len;
  // What tx() does not take stays ours: but of those that it took, the lengths may not be read.
  const auto queue = static_cast<uint16_t>(worker_ % port.n_tx_queues);
  const uint16_t sent = port.io->tx(queue, {buffer.packets, count});
  PortCounts& counts = const_cast<Port&>(port).counts[worker_];
  if (sent < count) [[unlikely]] {
    for (uint16_t i = sent; i < count; ++i) {
      bytes -= buffer.packets[i]->pkt_len;
      free(buffer.packets[i]);
    }
    add(counts.tx_dropped, count - sent);
    add(buffer.counts->drops[static_cast<size_t>(DropReason::tx_queue_full)], count - sent);
  }
  add(counts.tx_packets, sent);
  add(counts.tx_bytes, bytes);
  buffer.count = 0;
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
  rte_pktmbuf_free_bulk(to_free_.data(), n_to_free_);
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
