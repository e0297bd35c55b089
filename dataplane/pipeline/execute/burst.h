// SPDX-License-Identifier: Apache-2.0
// A burst on its way through an LSI, and parts of it at one operation.
//
// Packets are named by their positions in the burst, which they keep from table to table; a set of
// packets is a 32-bit set of positions. So no packet moves while a burst is split by tables and
// rules, and order within a flow is kept, because sets are walked upwards.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "match/fields/extract.h"
#include "pipeline/program/program.h"

namespace headrace::pipeline {

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

/// Packets with what is known of them, by position; key and headers of a packet are in step.
struct PacketBlock {
  rte_mbuf** packets;
  match::FlowKey* keys;
  packet::ParsedPacket* parsed;
  uint32_t* lengths;
};

/// One packet of a block.
struct PacketView {
  rte_mbuf* packet;
  match::FlowKey* key;
  packet::ParsedPacket* parsed;
};

inline PacketView view_of(const PacketBlock& block, uint8_t at) {
  return {block.packets[at], &block.keys[at], &block.parsed[at]};
}

/// A packet's action set (section 5.10), as references to the ops of the rules that wrote it.
struct ActionSet {
  uint32_t count{0};
  std::array<const Op*, kSetSlots> ops;

  void clear() { count = 0; }
  /// Adds an op; it replaces one of the same slot.
  void write(const Op& op);
  /// Puts it in the order of execution; a group excludes the output.
  void arrange();
};

/// The burst that an executor has at work: where it came from, and what is the same for all of its
/// packets.
struct Burst {
  const LsiProgram* program{nullptr};
  const Port* in_port{nullptr};  ///< null: a reserved port, as of packet-out
  PortNo in_port_number{0};
  unsigned depth{0};  ///< patches crossed so far
  packet::Depth parse_depth{};
  Count* counts{nullptr};  ///< this worker's, by CounterIndex
  WorkerCounts* worker{nullptr};

  size_t count{0};
  uint64_t bytes{0};  ///< of all its packets, as they are now
  match::BurstMetadata metadata;
  PacketSet with_set{0};    ///< whose action set is not empty
  PacketSet had_output{0};  ///< that went somewhere already
};

/// Packets of a burst that are at the same operation of their rules.
struct OpBurst {
  const PacketBlock* block;
  unsigned nesting;  ///< groups entered so far
  bool last;         ///< nothing follows: an output sends the packets themselves, not copies
  size_t count;
  std::array<uint8_t, kBurst> at;            ///< positions in the block
  std::array<const Op*, kBurst> ops;         ///< of packet at[k]
  std::array<const RuleBody*, kBurst> rule;  ///< that packet at[k] hit

  void add(uint8_t position, const Op* op, const RuleBody* body) {
    at[count] = position;
    ops[count] = op;
    rule[count++] = body;
  }
  /// Keeps packet k as number `kept` of those that stay; kept <= k.
  void keep(size_t kept, size_t k) {
    at[kept] = at[k];
    ops[kept] = ops[k];
    rule[kept] = rule[k];
  }
  [[nodiscard]] PacketView view(size_t k) const { return view_of(*block, at[k]); }
};

}  // namespace headrace::pipeline
