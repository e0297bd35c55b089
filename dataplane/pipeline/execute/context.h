// SPDX-License-Identifier: Apache-2.0
// What an executor knows of the burst that it runs.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "pipeline/execute/action_runner.h"
#include "pipeline/execute/executor.h"
#include "pipeline/execute/forward.h"
#include "pipeline/execute/tx_buffers.h"
#include "pipeline/program/program.h"

namespace headrace::pipeline {

class Defragmenter;
class TunnelIngress;

/// Packets of a burst, by position.
using PacketSet = uint32_t;
static_assert(kBurst <= 32);

inline constexpr PacketSet first_packets(size_t count) {
  return count >= 32 ? ~PacketSet{0} : (PacketSet{1} << count) - 1;
}

constexpr std::array<uint8_t, kBurst> make_identity() {
  std::array<uint8_t, kBurst> identity{};
  for (uint8_t i = 0; i < kBurst; ++i) identity[i] = i;
  return identity;
}
inline constexpr std::array<uint8_t, kBurst> kIdentity = make_identity();

/// The positions at which `rules` holds `rule`.
[[nodiscard]] PacketSet positions_of(const std::array<uint32_t, kBurst>& rules,
                                     uint32_t rule) noexcept;
/// Its portable variant.
[[nodiscard]] inline PacketSet positions_of_portable(const std::array<uint32_t, kBurst>& rules,
                                                     uint32_t rule) noexcept {
  PacketSet found = 0;
  for (size_t k = 0; k < kBurst; ++k) found |= PacketSet{rules[k] == rule} << k;
  return found;
}

/// A packet on its way out, as a rule of the forward class says.
struct Delivery {
  const Rule* rule;
  uint64_t hash;  ///< flow_hash64(), before any edit
  uint8_t i;      ///< position in the burst
};

/// An executor's insides: shared by executor.cc, burst_actions.cc and patches.cc, nobody else's.
struct Executor::Context final : TxObserver {
  class NextTableBatch;

  Context(unsigned worker, PuntQueue& punts)
      : worker(worker), tx(worker, *this), runner(worker, punts, tx) {}

  void run_burst(const LsiProgram& program, const Port* in_port, PortNo number, unsigned depth,
                 std::span<rte_mbuf*> packets, bool received) noexcept;
  void look_at_received(const Port& in_port, bool arrived) noexcept;
  void leaving(const Port& port, rte_mbuf* packet) noexcept override;
  void run_tables() noexcept;
  void run_table(uint8_t table, PacketSet members) noexcept;
  void run_members(uint8_t table, std::span<const uint8_t> active, PacketSet members) noexcept;
  /// `bytes`: of the packets together.
  void run_one(const Rule& rule, std::span<const uint8_t> active, PacketSet members,
               uint64_t bytes) noexcept;
  /// `missed`: some packets hit no rule.
  void run_many(std::span<const uint8_t> active, PacketSet members, bool missed) noexcept;
  [[nodiscard]] bool run_two(std::span<const uint8_t> active, PacketSet members) noexcept;
  void drop_by(const Rule& rule, uint8_t i) noexcept;
  [[nodiscard]] uint64_t bytes_of(std::span<const uint8_t> active,
                                  PacketSet members) const noexcept;
  [[nodiscard]] bool drop_misses(std::span<const uint8_t> active) noexcept;
  /// The following take packets by their positions in `active`, counted already.
  void run_meters(std::span<const uint8_t> active, std::span<const uint8_t> positions) noexcept;
  void run_pops(std::span<const uint8_t> active, std::span<const uint8_t> positions) noexcept;
  void run_selects(std::span<const uint8_t> active, std::span<const uint8_t> positions) noexcept;
  void run_pushes(std::span<const uint8_t> active, std::span<const uint8_t> positions) noexcept;
  void deliver(std::span<const Delivery> deliveries) noexcept;
  bool push_tunnel(const Delivery& delivery) noexcept;
  void parse_again(PacketSet members) noexcept;
  void run_homogeneous(const ForwardBurst& homogeneous) noexcept;
  void run_mixed(std::span<const uint8_t> active, bool sets) noexcept;
  [[nodiscard]] DropReason refusal_of(const Port* port) const noexcept {
    return port == nullptr         ? DropReason::port_missing
           : port == burst.in_port ? DropReason::input_port
                                   : port->send_refusal.load(std::memory_order_relaxed);
  }
  void run_rule(uint8_t i, const Rule& rule) noexcept;
  void begin(const LsiProgram& program, const Port* in_port, PortNo number, unsigned depth,
             packet::Depth parse_depth) noexcept;
  void run_patches() noexcept;
  void terminate(const TunnelIngress& tunnels) noexcept;
  [[nodiscard]] size_t reassemble(Defragmenter& defragmenter,
                                  std::span<rte_mbuf*> fragments) noexcept;
  [[nodiscard]] PacketSet drop_fragments() noexcept;
  /// Takes note of what an edit did to a packet's length.
  void resize(uint8_t i) noexcept {
    const uint32_t now = packets[i]->pkt_len;
    burst_bytes += uint64_t{now} - lengths[i];
    lengths[i] = now;
  }
  /// Headers or values of packets that go on have changed.
  void forget_burst_metadata() noexcept { burst_metadata = {}; }
  void wait_at(uint8_t table, PacketSet members) noexcept {
    waiting[table] |= members;
    tables_waiting[table / 64] |= uint64_t{1} << (table % 64);
  }

  unsigned worker;
  TxBuffers tx;
  ActionRunner runner;
  bool timed{false};  ///< see set_timing()
  uint32_t tick{1};
  uint64_t tsc{0};

  // The burst that is being run.
  BurstContext burst;
  size_t count{0};
  uint64_t burst_bytes{0};  ///< of all its packets, as they are now
  rte_mbuf* const* packets{nullptr};
  match::BurstMetadata burst_metadata;  ///< as the packets are now
  PacketSet with_set{0};                ///< whose action set is not empty
  PacketSet had_output{0};              ///< that went somewhere already
  std::array<uint64_t, 4> tables_waiting{};
  alignas(64) std::array<uint32_t, kBurst> rules;  ///< by position in `active`
  alignas(64) std::array<uint32_t, kBurst> lengths;
  alignas(64) std::array<packet::ParsedPacket, kBurst> parsed;
  alignas(64) std::array<match::FlowKey, kBurst> values;
  std::array<PacketSet, 256> waiting{};
  std::array<ActionSet, kBurst> sets;
  PatchBurst patch;
};

}  // namespace headrace::pipeline
