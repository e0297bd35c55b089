// SPDX-License-Identifier: Apache-2.0
// A compiled rule: what packets that hit it are counted under, and what is done to them.
#pragma once

#include <cstdint>
#include <vector>

#include "packet/tunnel.h"
#include "pipeline/program/action_program.h"
#include "pipeline/program/counters.h"

namespace headrace::pipeline {

class MeterHandle;
struct PortHandle;

using RuleIndex = uint32_t;
inline constexpr RuleIndex kNoRule = 0;
inline constexpr uint8_t kNoTable = 0xff;

/// The classes of rules that the executor tells apart.
enum class FastPathClass : uint8_t {
  go,       ///< nothing but goto, maybe with metadata
  forward,  ///< rewrite the Ethernet header, maybe dec_ttl, maybe a tunnel; output to one port; end
  drop,     ///< end without any action
  general,  ///< a list of ops
};

/// What a rule of the forward class does to a packet.
enum RuleEdit : uint8_t {
  kEditTtl = 1 << 0,       ///< the TTL goes down
  kEditL2 = 1 << 1,        ///< MAC addresses are replaced: l2_value under l2_mask
  kEditTunnel = 1 << 2,    ///< a tunnel's header is put in front, after the other edits
  kEditTunnelId = 1 << 3,  ///< with it: the field tunnel_id holds the id
};

/// What else the ops of a general rule are known to do.
enum GeneralFlag : uint8_t {
  kClearsSet = 1 << 0,      ///< the action set is emptied
  kWritesSet = 1 << 1,      ///< body->write goes into it
  kChangesLayout = 1 << 2,  ///< some op's Operation::changes_layout
  kChangesLength = 1 << 3,
};

/// Operands of the forward class.
struct ForwardRule {
  const PortHandle* out;
  const packet::TunnelHeader* tunnel;  ///< with kEditTunnel
  /// The first 16 bytes are set to value where mask is set.
  alignas(16) uint8_t l2_value[16];
  alignas(16) uint8_t l2_mask[16];
};

/// Operands of the classes go and general.
struct GeneralRule {
  const Op* ops;
  const MeterHandle* meter;  ///< null: none
  uint64_t metadata;
  uint64_t metadata_mask;
  /// Rules of one number have the same operations in the same order, the same number of them
  /// applied, and agree in flags, meter (or none) and goto (or none): they run together.
  uint32_t action_class;
  match::WordSet changes;  ///< words of the flow key that the applied ops change
  uint16_t n_ops;          ///< all: if the action set was empty before and the rule ends here
  uint16_t n_apply;        ///< of these, the ones of apply-actions
  uint8_t flags;           ///< GeneralFlag
};

/// What a rule does, in full; read where the rule's own line does not suffice.
struct RuleBody {
  GeneralRule general{};  ///< of rules of any class
  std::vector<Op> ops;    ///< general.ops: those applied, then, if the rule ends here, its own set
  std::vector<Op> write;  ///< into the action set
  uint64_t cookie{0};
  uint8_t table_id{0};
  bool table_miss{false};  ///< priority 0, no match: its packet-ins say "no match"
};

/// One rule: a cache line, all that the usual classes need. A group's bucket is one, too.
struct alignas(64) Rule {
  FastPathClass fast_path;
  uint8_t next_table;  ///< kNoTable: none
  uint8_t edits;       ///< forward: RuleEdit bits
  uint8_t track_idle;  ///< 1 if its last use is to be noted
  CounterIndex counter;
  const RuleBody* body;
  union {
    ForwardRule forward;
    GeneralRule general;
  };
};
static_assert(sizeof(Rule) == 64);
static_assert(sizeof(GeneralRule) <= sizeof(ForwardRule));

}  // namespace headrace::pipeline
