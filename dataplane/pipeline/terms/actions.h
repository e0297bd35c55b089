// SPDX-License-Identifier: Apache-2.0
// Actions as a controller gives them, decoded: an operation and its arguments.
//
// What an operation is to the wire, to matching, to bursts and to the reference interpreter stands
// in one file of pipeline/operations, as an Operation (program/operation.h). Here are the arguments
// of those that other code names; the arguments of all others are private to their files.
//
// Source: OpenFlow Switch Specification 1.3.5, section 7.2.5.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>
#include <vector>

#include "match/fields/fields.h"
#include "packet/tunnel.h"
#include "pipeline/terms/numbers.h"

namespace headrace::pipeline {

struct Operation;

/// An operation with its arguments, by value. Arguments are a trivially copyable struct A with
/// `static const Operation& operation()` and operator==.
class Action {
 public:
  static constexpr size_t kArgumentBytes = 96;
  /// The form on the wire that an action came in, and is reported in.
  enum class Form : uint8_t { own, note };

  template <typename A>
  requires(!std::is_same_v<std::remove_cvref_t<A>, Action>)
      Action(const A& arguments)  // NOLINT(google-explicit-constructor): lists of actions read so
      : operation_(&A::operation()), equal_(equal<A>) {
    static_assert(std::is_trivially_copyable_v<A> && sizeof(A) <= kArgumentBytes);
    std::memcpy(arguments_.data(), &arguments, sizeof(A));
  }

  [[nodiscard]] const Operation& operation() const { return *operation_; }
  /// The arguments, if the action is of their operation; else null.
  template <typename A>
  [[nodiscard]] const A* as() const {
    return operation_ == &A::operation() ? &arguments<A>() : nullptr;
  }
  template <typename A>
  [[nodiscard]] bool is() const {
    return operation_ == &A::operation();
  }
  /// The arguments of an action that is known to be of their operation.
  template <typename A>
  [[nodiscard]] const A& arguments() const {
    return *std::launder(reinterpret_cast<const A*>(arguments_.data()));
  }
  [[nodiscard]] Form form() const { return form_; }
  void set_form(Form form) { form_ = form; }

  bool operator==(const Action& other) const {
    return operation_ == other.operation_ && form_ == other.form_ &&
           equal_(arguments_.data(), other.arguments_.data());
  }

 private:
  using Equal = bool (*)(const std::byte* a, const std::byte* b);
  template <typename A>
  static bool equal(const std::byte* a, const std::byte* b) {
    return *reinterpret_cast<const A*>(a) == *reinterpret_cast<const A*>(b);
  }

  const Operation* operation_;
  Equal equal_;
  alignas(8) std::array<std::byte, kArgumentBytes> arguments_{};
  Form form_{Form::own};
};
using ActionList = std::vector<Action>;

/// Where a list of actions stands: some are for packet-outs or buckets only.
enum class ActionContext : uint8_t { flow, bucket, packet_out };

// --- arguments ---------------------------------------------------------------------------------

struct OutputAction {
  PortNo port;
  uint16_t max_len{kNoBufferLength};  ///< for the controller
  bool operator==(const OutputAction&) const = default;
  static const Operation& operation();
};
struct GroupAction {
  uint32_t group_id;
  bool operator==(const GroupAction&) const = default;
  static const Operation& operation();
};
struct SetQueueAction {
  uint32_t queue_id;
  bool operator==(const SetQueueAction&) const = default;
  static const Operation& operation();
};
struct SetFieldAction {
  match::Field field;
  std::array<uint8_t, 16> value{};
  bool operator==(const SetFieldAction&) const = default;
  static const Operation& operation();
};
struct PushVlanAction {
  uint16_t ethertype;  ///< host order
  bool operator==(const PushVlanAction&) const = default;
  static const Operation& operation();
};
struct PopVlanAction {
  bool operator==(const PopVlanAction&) const = default;
  static const Operation& operation();
};
struct PushMplsAction {
  uint16_t ethertype;  ///< host order
  bool operator==(const PushMplsAction&) const = default;
  static const Operation& operation();
};
struct PopMplsAction {
  uint16_t ethertype;  ///< of what follows the label stack, host order
  bool operator==(const PopMplsAction&) const = default;
  static const Operation& operation();
};
struct PushPbbAction {
  uint16_t ethertype;  ///< host order
  bool operator==(const PushPbbAction&) const = default;
  static const Operation& operation();
};
struct PopPbbAction {
  bool operator==(const PopPbbAction&) const = default;
  static const Operation& operation();
};
struct SetMplsTtlAction {
  uint8_t ttl;
  bool operator==(const SetMplsTtlAction&) const = default;
  static const Operation& operation();
};
struct DecMplsTtlAction {
  bool operator==(const DecMplsTtlAction&) const = default;
  static const Operation& operation();
};
struct SetNwTtlAction {
  uint8_t ttl;
  bool operator==(const SetNwTtlAction&) const = default;
  static const Operation& operation();
};
struct DecNwTtlAction {
  bool operator==(const DecNwTtlAction&) const = default;
  static const Operation& operation();
};
struct CopyTtlOutAction {
  bool operator==(const CopyTtlOutAction&) const = default;
  static const Operation& operation();
};
struct CopyTtlInAction {
  bool operator==(const CopyTtlInAction&) const = default;
  static const Operation& operation();
};

/// Experimenter: encapsulate.
struct PushTunnelAction {
  packet::TunnelSpec spec;
  bool id_from_field{false};  ///< the field tunnel_id holds the id, not the spec
  bool operator==(const PushTunnelAction&) const = default;
  static const Operation& operation();
};
/// Experimenter: decapsulate; tunnel_id and tun_* then hold what the tunnel had.
struct PopTunnelAction {
  packet::TunnelKind kind;
  bool operator==(const PopTunnelAction&) const = default;
  static const Operation& operation();
};
/// Experimenter, in a bucket: the select group remembers the bucket of each flow.
struct SelectMemoryAction {
  uint16_t idle_timeout;  ///< seconds after which a quiet flow is forgotten; not 0
  /// Not 0: groups of this number share what they remember, and a flow and its answers are one.
  uint32_t pair{0};
  bool operator==(const SelectMemoryAction&) const = default;
  static const Operation& operation();
};

}  // namespace headrace::pipeline
