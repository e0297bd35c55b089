// SPDX-License-Identifier: Apache-2.0
// A compiled rule: what packets that hit it are counted under, and what is done to them.
#pragma once

#include <cstdint>
#include <vector>

#include "packet/tunnel.h"
#include "pipeline/program/action_program.h"
#include "pipeline/program/counters.h"

namespace headrace::pipeline {

struct GroupHandle;
struct MeterHandle;
struct PortHandle;

using RuleIndex = uint32_t;
inline constexpr RuleIndex kNoRule = 0;
inline constexpr uint8_t kNoTable = 0xff;

/// The forms of rules that have their own code in the executor.
enum class FastPathClass : uint8_t {
  go,       ///< nothing but goto
  meter,    ///< a meter, then goto
  pop,      ///< take a tunnel off, then goto
  forward,  ///< rewrite the Ethernet header, maybe dec_ttl, maybe a tunnel; output to one port; end
  select,   ///< nothing but a group; end
  drop,     ///< end without any action
  general,  ///< anything else: see RuleBody
};

/// What a rule of the forward class does to a packet.
enum RuleEdit : uint8_t {
  kEditTtl = 1 << 0,       ///< the TTL goes down
  kEditL2 = 1 << 1,        ///< MAC addresses are replaced: l2_value under l2_mask
  kEditTunnel = 1 << 2,    ///< a tunnel's header is put in front, after the other edits
  kEditTunnelId = 1 << 3,  ///< with it: the field tunnel_id says the id
};

/// What a rule of any fast-path class does, in full.
struct RuleBody {
  const MeterHandle* meter{nullptr};
  std::vector<Op> apply;
  bool clear_actions{false};
  std::vector<Op> write;  ///< into the action set
  uint64_t metadata{0};   ///< as in FlowKey
  uint64_t metadata_mask{0};
  uint64_t cookie{0};
  uint8_t table_id{0};
  bool table_miss{false};  ///< priority 0, no match: its packet-ins say "no match"
};

/// One rule: a cache line, all that the usual fast-path classes need. A group's bucket is one, too.
struct alignas(64) Rule {
  FastPathClass fast_path;
  uint8_t next_table;  ///< kNoTable: none
  uint8_t edits;       ///< forward: RuleEdit bits
  uint8_t track_idle;  ///< 1 if its last use is to be noted
  CounterIndex counter;
  const PortHandle* out;  ///< forward
  const RuleBody* body;
  union {
    const MeterHandle* meter;            ///< meter
    const GroupHandle* group;            ///< select
    const packet::TunnelHeader* tunnel;  ///< forward with kEditTunnel; one of body's
    packet::TunnelKind popped;           ///< pop
  };
  alignas(
      16) uint8_t l2_value[16];  ///< forward: the first 16 bytes are set to value where mask is set
  alignas(16) uint8_t l2_mask[16];
};
static_assert(sizeof(Rule) == 64);

}  // namespace headrace::pipeline
