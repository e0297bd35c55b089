// SPDX-License-Identifier: Apache-2.0
// Where a worker gathers the packets that leave, per port, and what it drops.
//
// Packets to a device wait in a buffer of 32 until it is full or the poll round ends, so that a
// device sees bursts however the rules scatter packets. Packets to a patch port wait in the patch
// queue, as the input bursts of the peer LSI that they are; the executor empties it before it
// returns. Packets to be freed are gathered, too: a mempool takes 32 back for the price of a few.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "pipeline/program/handles.h"
#include "pipeline/terms/limits.h"
#include "pipeline/terms/port_io.h"

namespace headrace::pipeline {

/// Packets on their way through a patch.
struct PatchBurst {
  const Port* port{nullptr};  ///< that they left by
  unsigned depth{0};          ///< patches crossed, this one included
  uint16_t count{0};
  std::array<rte_mbuf*, kBurst> packets;
};

/// Sees packets before they leave by a port whose packets are mirrored.
class TxObserver {
 public:
  virtual void leaving(const Port& port, rte_mbuf* packet) noexcept = 0;

 protected:
  ~TxObserver() = default;
};

class TxBuffers {
 public:
  /// `watcher` must outlive this.
  TxBuffers(unsigned worker, TxObserver& watcher) : worker_(worker), watcher_(watcher) {}
  TxBuffers(const TxBuffers&) = delete;
  TxBuffers& operator=(const TxBuffers&) = delete;

  /// Queues `packet` for a port that may be sent to.
  void push(const Port& port, rte_mbuf* packet, unsigned depth, WorkerCounts& counts) noexcept {
    const TxHook tx_hook = port.tx_hook.load(std::memory_order_relaxed);
    if (tx_hook != TxHook::none) [[unlikely]] {
      push_aside(port, tx_hook, packet, depth, counts);
      return;
    }
    push_device(port, packet, counts);
  }

  /// The same, past any tx_hook: the port has a data path of its own.
  void push_device(const Port& port, rte_mbuf* packet, WorkerCounts& counts) noexcept {
    Buffer& buffer = buffers_[port.egress];
    if (buffer.count == 0) {
      buffer.port = &port;
      buffer.counts = &counts;
      waiting_[n_waiting_++] = port.egress;
    }
    buffer.packets[buffer.count++] = packet;
    buffer.bytes += packet->pkt_len;
    if (buffer.count == kBurst) [[unlikely]] {
      send(buffer);
      remove_waiting(port.egress);
    }
  }

  /// The same for many at once, `bytes` in all. What is nearly a burst goes straight out if none
  /// waits: a few packets fewer are no reason to copy the others, and all that follow in the round.
  void push_many(const Port& port, std::span<rte_mbuf*> packets, uint64_t bytes, unsigned depth,
                 WorkerCounts& counts) noexcept {
    if (port.tx_hook.load(std::memory_order_relaxed) != TxHook::none) [[unlikely]] {
      for (rte_mbuf* packet : packets) push(port, packet, depth, counts);
    } else if (packets.size() >= kStraight && buffers_[port.egress].count == 0) {
      send(port, packets, bytes, counts);
    } else {
      gather(port, packets, bytes, counts);
    }
  }

  /// Frees `packet` and counts why.
  void drop(rte_mbuf* packet, DropReason reason, WorkerCounts& counts) noexcept {
    add(counts.drops[static_cast<size_t>(reason)], 1);
    free(packet);
  }

  /// Frees `packet`, by and by.
  void free(rte_mbuf* packet) noexcept {
    to_free_[n_to_free_++] = packet;
    if (n_to_free_ == to_free_.size()) free_gathered();
  }

  /// Takes the oldest burst out of the patch queue; false if there is none.
  bool take_patch(PatchBurst& burst) noexcept {
    if (patch_head_ == patch_tail_) return false;
    burst = patches_[patch_head_];
    if (++patch_head_ == patch_tail_) patch_head_ = patch_tail_ = 0;
    return true;
  }

  /// Sends and frees all that waits. The patch queue must be empty.
  void flush() noexcept;

 private:
  struct alignas(64) Buffer {
    const Port* port;
    WorkerCounts* counts;  ///< of the LSI that sent last
    uint64_t bytes;
    uint16_t count;
    rte_mbuf* packets[kBurst];
  };
  static constexpr size_t kPatchBursts = 128;
  /// So many packets are worth a call of their own to the device.
  static constexpr size_t kStraight = kBurst * 3 / 4;

  void push_aside(const Port& port, TxHook tx_hook, rte_mbuf* packet, unsigned depth,
                  WorkerCounts& counts) noexcept;
  void gather(const Port& port, std::span<rte_mbuf*> packets, uint64_t bytes,
              WorkerCounts& counts) noexcept;
  void send(const Port& port, std::span<rte_mbuf*> packets, uint64_t bytes,
            WorkerCounts& counts) noexcept;
  void send(Buffer& buffer) noexcept {
    send(*buffer.port, {buffer.packets, buffer.count}, buffer.bytes, *buffer.counts);
    buffer.count = 0;
    buffer.bytes = 0;
  }
  /// Drops what the port's MTU refuses, of `bytes` in all; how many are left, in front.
  size_t drop_too_long(const Port& port, std::span<rte_mbuf*> packets, uint32_t max_frame,
                       uint64_t& bytes, WorkerCounts& counts) noexcept;
  void remove_waiting(uint32_t egress) noexcept;
  void free_gathered() noexcept;

  unsigned worker_;
  TxObserver& watcher_;
  uint32_t n_waiting_{0};
  uint32_t n_to_free_{0};
  size_t patch_head_{0};
  size_t patch_tail_{0};
  std::array<rte_mbuf*, kBurst> to_free_{};
  std::array<uint32_t, kMaxEgress> waiting_{};
  VirtualArray<Buffer> buffers_{kMaxEgress};
  std::unique_ptr<PatchBurst[]> patches_{new PatchBurst[kPatchBursts]};
};

}  // namespace headrace::pipeline
