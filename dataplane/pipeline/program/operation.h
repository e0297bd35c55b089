// SPDX-License-Identifier: Apache-2.0
// The form in which an operation is registered: all that the switch needs for an action.
//
// An operation is one file of pipeline/operations that defines one Operation: what the action is on
// the wire (forms, encode), when it may stand in a list (allowed, learn), how it compiles
// (compile), what it needs of a packet's flow key and changes of it (reads, changes), what it does
// to a burst (run), and what it does to one packet, slowly (reference). operations/registry.h lists
// them; the codec, the compiler, the executor, table features and the reference interpreter find
// them there and have no list of their own.
//
// Burst contract of run(): the OpBurst holds packets of one burst whose rules all have this
// operation at this place, each packet with its own Op. run() does it to all of them; packets that
// it drops or sends away it takes out of the OpBurst, the others keep their order. It sets no
// packet aside for later, allocates nothing but mbufs, and neither blocks nor throws.
//
// Flow key: it is the tables' copy of the packet's headers. An op that moves headers brings it up
// to date only if Op::refresh_key says that a table will read it; an op that reads a header field
// therefore reads it from the packet. metadata, tunnel_id and tun_* exist in the key alone and are
// always right there.
//
// Thread safety: an Operation is immutable; run() touches the worker's own Execution alone.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/wire.h"
#include "match/fields/fields.h"
#include "pipeline/terms/actions.h"

namespace headrace::pipeline {

struct Execution;
struct KnownHeaders;
struct Op;
struct OpBurst;
struct ReferencePacket;
struct Rule;
class ReferenceSwitch;
class Resolver;

/// Where an action stands in an action set (section 5.10): sets run in ascending order. Tunnels,
/// which the specification does not know, are popped with the other pops, and pushed after all
/// other edits of the packet.
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

/// ofp_action_type of experimenter actions.
inline constexpr uint16_t kExperimenterAction = 0xffff;

/// How an operation comes on the wire: by its type, or by experimenter and subtype.
struct WireForm {
  uint16_t type{0};
  uint32_t experimenter{0};
  uint16_t subtype{0};
  uint16_t length{0};  ///< of the whole action; 0: variable
  /// Reads what follows the header. The caller checks that the reader did not run short and, with a
  /// fixed length, that the length is right.
  OfResult<Action> (*decode)(wire::Reader& body, ActionContext context){nullptr};
};

/// One operation. A member that is null means: nothing to be done.
struct Operation {
  std::string_view name;  ///< as ovs-ofctl spells it
  std::span<const WireForm> forms{};
  void (*encode)(wire::Writer& writer, const Action& action){nullptr};
  /// Whether the action may stand where this is known of packets; else MATCH_INCONSISTENT.
  bool (*allowed)(const Action& action, const KnownHeaders& known){nullptr};
  /// Takes in what the action changes of what is known.
  void (*learn)(const Action& action, KnownHeaders& known){nullptr};

  SetOrder order{};  ///< in an action set
  OfResult<Op> (*compile)(const Action& action, ActionContext context, Resolver& resolver){nullptr};
  /// The words of the flow key that must have been extracted.
  match::WordSet (*reads)(const Op& op){nullptr};
  /// The words that it may change.
  match::WordSet (*changes)(const Op& op){nullptr};
  bool changes_layout{false};  ///< headers come, go or change their type, or a TTL is set
  bool changes_length{false};
  /// Adds the op to a rule of the forward class (rule.h); false: it has no place there.
  bool (*fuse)(const Op& op, Rule& rule){nullptr};

  void (*run)(Execution& x, OpBurst& burst){nullptr};
  /// The same on one packet; false: the packet was dropped.
  bool (*reference)(ReferencePacket& packet, const Action& action){nullptr};
};

}  // namespace headrace::pipeline
