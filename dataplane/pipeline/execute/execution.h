// SPDX-License-Identifier: Apache-2.0
// An executor's state: the burst at work, and what the stages that a burst goes through share.
//
//   receive_features   what a port or an LSI does with a burst before its tables
//   classification     tables: look-up, and packets split by rule and next table
//   rule_runner        a rule's steps on the packets that hit it; its ops are pipeline/operations
//   forward            the forward class of rules, in loops of its own
//   transmit           outputs: refusals, coalescing per port, copies, punts, TX hooks
//   patches            what left by a patch comes in at its peer
//
// Thread safety: one worker's own.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "pipeline/execute/burst.h"
#include "pipeline/execute/tx_buffers.h"
#include "pipeline/terms/limits.h"
#include "pipeline/terms/punt.h"

namespace headrace::pipeline {

/// Arrays of a block, for `kBurst` packets.
struct BlockStorage {
  alignas(64) std::array<rte_mbuf*, kBurst> packets;
  alignas(64) std::array<uint32_t, kBurst> lengths;
  alignas(64) std::array<packet::ParsedPacket, kBurst> parsed;
  alignas(64) std::array<match::FlowKey, kBurst> keys;

  [[nodiscard]] PacketBlock block() {
    return {packets.data(), keys.data(), parsed.data(), lengths.data()};
  }
};

struct Execution final : TxObserver {
  Execution(unsigned worker, PuntQueue& punts) : worker(worker), punts(punts), tx(worker, *this) {
    for (std::unique_ptr<BlockStorage>& each : copies) each = std::make_unique<BlockStorage>();
  }

  /// See TxObserver: copies for the mirrors of what leaves.
  void leaving(const Port& port, rte_mbuf* packet) noexcept override;

  /// Packets wait for a table.
  void wait_at(uint8_t table, PacketSet members) noexcept {
    waiting[table] |= members;
    tables_waiting[table / 64] |= uint64_t{1} << (table % 64);
  }
  /// Takes note of what an edit did to the length of a packet of the burst.
  void resize(uint8_t i) noexcept {
    const uint32_t now = main.packets[i]->pkt_len;
    burst.bytes += uint64_t{now} - main.lengths[i];
    main.lengths[i] = now;
  }
  void drop(rte_mbuf* packet, DropReason reason) noexcept {
    tx.drop(packet, reason, *burst.worker);
  }
  void count_drop(DropReason reason, uint64_t packets = 1) noexcept {
    add(burst.worker->drops[static_cast<size_t>(reason)], packets);
  }

  unsigned worker;
  PuntQueue& punts;
  TxBuffers tx;
  bool timed{false};  ///< see Executor::set_timing()
  bool alone{false};  ///< see Executor::set_alone()
  uint32_t tick{1};
  uint64_t tsc{0};

  Burst burst;
  PacketBlock main{};  ///< the burst's packets
  std::array<uint64_t, 4> tables_waiting{};
  alignas(64) std::array<uint32_t, kBurst> rules;  ///< by index in the packets at the table
  alignas(64) std::array<uint32_t, kBurst> lengths;
  alignas(64) std::array<packet::ParsedPacket, kBurst> parsed;
  alignas(64) std::array<match::FlowKey, kBurst> keys;
  std::array<PacketSet, 256> waiting{};
  std::array<ActionSet, kBurst> sets;
  PatchBurst patch;
  /// Copies that buckets of nested groups work on, by nesting.
  std::array<std::unique_ptr<BlockStorage>, kMaxGroupDepth + 1> copies;
  size_t n_to_table{0};  ///< packets that a packet-out sends through the tables
  std::array<rte_mbuf*, kBurst> to_table;
};

/// Keeps the packets of `burst` for which `edit(k)` returns DropReason::none, in order; drops the
/// others for the reason returned.
template <typename Edit>
void edit_each(Execution& x, OpBurst& burst, Edit&& edit) {
  size_t kept = 0;
  for (size_t k = 0; k < burst.count; ++k) {
    const DropReason reason = edit(k);
    if (reason != DropReason::none) [[unlikely]] {
      x.drop(burst.block->packets[burst.at[k]], reason);
      continue;
    }
    if (kept != k) burst.keep(kept, k);
    ++kept;
  }
  burst.count = kept;
}

}  // namespace headrace::pipeline
