// SPDX-License-Identifier: Apache-2.0
// Actions as workers run them: a flat array of fixed-size ops in execution order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "match/fields/set_field.h"
#include "packet/tunnel.h"
#include "pipeline/program/operation.h"

namespace headrace::pipeline {

class GroupHandle;
struct PortHandle;
struct PseudoPort;
struct Rewrite;

/// One operation with its operands; which members count is the operation's to say. A cache line.
struct alignas(64) Op {
  const Operation* operation{nullptr};
  union {
    const PortHandle* port{nullptr};
    const PseudoPort* pseudo_port;
    const GroupHandle* group;
    match::SetField set;
    const packet::TunnelHeader* tunnel;  ///< `owner` keeps it
    const Rewrite* rewrite;              ///< `owner` keeps it
  };
  std::array<uint8_t, 16> bytes{};  ///< network order, as OXM carries the field
  uint32_t argument{0};
  uint16_t ethertype{0};  ///< host order
  match::Field field{};
  match::Field from{};  ///< the field that is read, where two are named
  uint8_t ttl{0};
  uint8_t set_slot{0};      ///< two ops of one slot replace each other in an action set
  bool refresh_key{false};  ///< later tables read the flow key
  std::shared_ptr<const void> owner{};
};
static_assert(sizeof(Op) == 64);

/// Slots of an action set: a field's for set-field, else the operation's.
inline constexpr size_t kMaxOperations = 64;
inline constexpr size_t kSetSlots = match::kFieldCount + kMaxOperations;
static_assert(kSetSlots <= 256);

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
