// SPDX-License-Identifier: Apache-2.0
// What the control side says to a pipeline: OpenFlow 1.3's actions, instructions and modifications,
// decoded. The wire codec (openflow/) fills these; the compiler (pipeline/) reads them.
//
// Source: OpenFlow Switch Specification 1.3.5, sections 5 and 7.
#pragma once

#include <array>
#include <cstdint>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "match/fields/match.h"
#include "packet/tunnel.h"

namespace headrace::pipeline {

using PortNo = uint32_t;
using MacAddress = std::array<uint8_t, 6>;

/// Reserved ports (section 7.2.1, ofp_port_no).
inline constexpr PortNo kPortMax = 0xffffff00;
inline constexpr PortNo kPortInPort = 0xfffffff8;
inline constexpr PortNo kPortTable = 0xfffffff9;
inline constexpr PortNo kPortNormal = 0xfffffffa;
inline constexpr PortNo kPortFlood = 0xfffffffb;
inline constexpr PortNo kPortAll = 0xfffffffc;
inline constexpr PortNo kPortController = 0xfffffffd;
inline constexpr PortNo kPortLocal = 0xfffffffe;
inline constexpr PortNo kPortAny = 0xffffffff;

inline constexpr uint32_t kGroupMax = 0xffffff00;
inline constexpr uint32_t kGroupAll = 0xfffffffc;
inline constexpr uint32_t kGroupAny = 0xffffffff;
inline constexpr uint32_t kMeterMax = 0xffff0000;
inline constexpr uint32_t kMeterAll = 0xffffffff;
inline constexpr uint8_t kTableAll = 0xff;
inline constexpr uint8_t kTableCount = 254;  ///< tables 0..253
inline constexpr uint16_t kNoBufferLength = 0xffff;
inline constexpr uint32_t kNoBuffer = 0xffffffff;

/// What becomes of IP fragments (section 7.3.2, ofp_config_flags).
enum class FragmentMode : uint8_t { normal, drop, reassemble };

/// An OpenFlow error: ofp_error_type and the code under it (section 7.4.4).
struct OfError {
  uint16_t type;
  uint16_t code;
  bool operator==(const OfError&) const = default;
};

template <typename T = void>
using OfResult = tl::expected<T, OfError>;

// --- actions (section 7.2.5) -------------------------------------------------------------------

struct OutputAction {
  PortNo port;
  uint16_t max_len{kNoBufferLength};  ///< for the controller
  bool operator==(const OutputAction&) const = default;
};
struct GroupAction {
  uint32_t group_id;
  bool operator==(const GroupAction&) const = default;
};
struct SetQueueAction {
  uint32_t queue_id;
  bool operator==(const SetQueueAction&) const = default;
};
struct SetFieldAction {
  match::Field field;
  std::array<uint8_t, 16> value{};
  bool operator==(const SetFieldAction&) const = default;
};
struct PushAction {  ///< push VLAN, MPLS or PBB
  enum class Header : uint8_t { vlan, mpls, pbb } header;
  uint16_t ethertype;  ///< host order
  bool operator==(const PushAction&) const = default;
};
struct PopAction {  ///< pop VLAN, MPLS or PBB
  PushAction::Header header;
  uint16_t ethertype{0};  ///< what follows the MPLS stack, host order
  bool operator==(const PopAction&) const = default;
};
struct SetMplsTtlAction {
  uint8_t ttl;
  bool operator==(const SetMplsTtlAction&) const = default;
};
struct SetNwTtlAction {
  uint8_t ttl;
  bool operator==(const SetNwTtlAction&) const = default;
};
struct SimpleAction {  ///< actions without parameters
  enum class Kind : uint8_t { dec_nw_ttl, dec_mpls_ttl, copy_ttl_out, copy_ttl_in } kind;
  bool operator==(const SimpleAction&) const = default;
};

struct PushTunnelAction {  ///< experimenter: encapsulate
  packet::TunnelSpec spec;
  bool id_from_field{false};  ///< the field tunnel_id says the id, not the spec
  bool as_note{false};        ///< how it came, and is reported: see openflow/codec/tunnel_actions.h
  bool operator==(const PushTunnelAction&) const = default;
};
struct PopTunnelAction {  ///< experimenter: decapsulate; tunnel_id and tun_* say what it
                          ///< was
  packet::TunnelKind kind;
  bool as_note{false};
  bool operator==(const PopTunnelAction&) const = default;
};

struct SelectMemoryAction {  ///< experimenter, in a bucket: the select group remembers its flows
  uint16_t idle_timeout;     ///< seconds after which a quiet flow is forgotten; not 0
  bool as_note{false};
  bool operator==(const SelectMemoryAction&) const = default;
};

using Action = std::variant<OutputAction, GroupAction, SetQueueAction, SetFieldAction, PushAction,
                            PopAction, SetMplsTtlAction, SetNwTtlAction, SimpleAction,
                            PushTunnelAction, PopTunnelAction, SelectMemoryAction>;
using ActionList = std::vector<Action>;

// --- instructions (section 7.2.4) --------------------------------------------------------------

struct GotoTable {
  uint8_t table_id;
  bool operator==(const GotoTable&) const = default;
};
struct WriteMetadata {
  uint64_t metadata;  ///< host order
  uint64_t mask;
  bool operator==(const WriteMetadata&) const = default;
};
struct WriteActions {
  ActionList actions;
  bool operator==(const WriteActions&) const = default;
};
struct ApplyActions {
  ActionList actions;
  bool operator==(const ApplyActions&) const = default;
};
struct ClearActions {
  bool operator==(const ClearActions&) const = default;
};
struct MeterInstruction {
  uint32_t meter_id;
  bool operator==(const MeterInstruction&) const = default;
};

/// In the order as received; stats echo it.
using Instruction = std::variant<GotoTable, WriteMetadata, WriteActions, ApplyActions, ClearActions,
                                 MeterInstruction>;
using InstructionList = std::vector<Instruction>;

// --- modifications -----------------------------------------------------------------------------

/// ofp_flow_mod (section 7.3.4.1).
struct FlowMod {
  enum class Command : uint8_t { add, modify, modify_strict, remove, remove_strict };
  Command command{Command::add};
  uint8_t table_id{0};
  uint64_t cookie{0};
  uint64_t cookie_mask{0};
  uint16_t idle_timeout{0};  ///< seconds
  uint16_t hard_timeout{0};  ///< seconds
  uint16_t priority{0};
  uint32_t buffer_id{kNoBuffer};
  PortNo out_port{kPortAny};
  uint32_t out_group{kGroupAny};
  uint16_t flags{0};  ///< ofp_flow_mod_flags
  match::Match match;
  InstructionList instructions;
};

inline constexpr uint16_t kFlowSendRemoved = 1 << 0;
inline constexpr uint16_t kFlowCheckOverlap = 1 << 1;
inline constexpr uint16_t kFlowResetCounts = 1 << 2;
inline constexpr uint16_t kFlowNoPacketCounts = 1 << 3;
inline constexpr uint16_t kFlowNoByteCounts = 1 << 4;

struct Bucket {
  uint16_t weight{0};
  PortNo watch_port{kPortAny};
  uint32_t watch_group{kGroupAny};
  ActionList actions;
  bool operator==(const Bucket&) const = default;
};

/// ofp_group_mod (section 7.3.4.2).
struct GroupMod {
  enum class Command : uint8_t { add, modify, remove, add_or_modify };
  enum class Type : uint8_t { all, select, indirect, fast_failover };
  Command command{Command::add};
  Type type{Type::all};
  uint32_t group_id{0};
  std::vector<Bucket> buckets;
};

struct MeterBand {
  enum class Type : uint16_t { drop = 1, dscp_remark = 2 };
  Type type{Type::drop};
  uint32_t rate{0};
  uint32_t burst_size{0};
  uint8_t prec_level{0};
  bool operator==(const MeterBand&) const = default;
};

/// ofp_meter_mod (section 7.3.4.4).
struct MeterMod {
  enum class Command : uint8_t { add, modify, remove };
  Command command{Command::add};
  uint16_t flags{0};  ///< ofp_meter_flags: 1 kbps, 2 pktps, 4 burst, 8 stats
  uint32_t meter_id{0};
  std::vector<MeterBand> bands;
};

/// ofp_port_mod (section 7.3.4.3): the bits of `config` under `mask` are set.
struct PortMod {
  PortNo port{0};
  MacAddress mac{};  ///< must be the port's own
  uint32_t config{0};
  uint32_t mask{0};
};

}  // namespace headrace::pipeline
