// SPDX-License-Identifier: Apache-2.0
// Actions as workers run them: a flat array of fixed-size micro-operations in execution order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "match/fields/set_field.h"
#include "packet/tunnel.h"
#include "pipeline/terms/flow_types.h"

namespace headrace::pipeline {

struct PortHandle;
struct GroupHandle;

enum class OpCode : uint8_t {
  output,             ///< port
  output_in_port,     ///<
  output_all,         ///< all ports but the input port
  output_flood,       ///< as output_all: no port is blocked here
  output_controller,  ///< argument: max_len
  output_table,       ///< packet-out only: through the flow tables
  output_normal,      ///< MAC learning
  group,              ///< group
  set_queue,          ///< argument: queue id
  set_field,          ///< field, bytes, set
  push,               ///< header, ethertype
  pop,                ///< header, ethertype
  set_mpls_ttl,       ///< ttl
  set_nw_ttl,         ///< ttl
  dec_nw_ttl,
  dec_mpls_ttl,
  copy_ttl_out,
  copy_ttl_in,
  push_tunnel,  ///< tunnel; argument: 1 if the field tunnel_id says the id
  pop_tunnel,   ///< argument: TunnelKind
};

/// Where an action stands in an action set (section 5.10): sets run in ascending order. Tunnels, of
/// which the specification knows nothing, are popped with the other pops, and pushed when all else
/// of the packet is as it shall be.
enum class SetOrder : uint8_t {
  copy_ttl_in,
  pop,
  push_mpls,
  push_pbb,
  push_vlan,
  copy_ttl_out,
  dec_ttl,
  set,
  push_tunnel,
  qos,
  group,
  output,
};

/// One micro-operation; which members count is said at its OpCode.
struct Op {
  OpCode code{};
  match::Field field{};
  PushAction::Header header{};
  uint8_t ttl{0};
  uint16_t ethertype{0};  ///< host order
  SetOrder order{};       ///< its place in an action set
  uint8_t set_slot{0};    ///< two ops with the same slot replace each other in an action set
  uint32_t argument{0};
  std::array<uint8_t, 16> bytes{};  ///< network order, as OXM carries the field
  union {
    const PortHandle* port{nullptr};
    const GroupHandle* group;
    match::SetField set;
  };
  std::shared_ptr<const packet::TunnelHeader> tunnel{};
};

/// Kinds of actions in an action set beside set-field; each has one place in it.
enum class SetKind : uint8_t {
  copy_ttl_in,
  pop_vlan,
  pop_mpls,
  pop_pbb,
  push_mpls,
  push_pbb,
  push_vlan,
  copy_ttl_out,
  dec_nw_ttl,
  dec_mpls_ttl,
  set_nw_ttl,
  set_mpls_ttl,
  pop_tunnel,
  push_tunnel,
  qos,
  group,
  output,
  count
};

/// Slots of an action set: the fields first, then the other kinds.
inline constexpr size_t kSetSlots = match::kFieldCount + static_cast<size_t>(SetKind::count);

/// A compiled action list.
class ActionProgram {
 public:
  ActionProgram() = default;
  explicit ActionProgram(std::vector<Op> ops) : ops_(std::move(ops)) {}
  [[nodiscard]] std::span<const Op> ops() const { return ops_; }

 private:
  std::vector<Op> ops_;
};

}  // namespace headrace::pipeline
