// SPDX-License-Identifier: Apache-2.0
// What the control side says to a pipeline: OpenFlow 1.3's actions, instructions and modifications,
// decoded. The wire codec (openflow/) fills these; the compiler (pipeline/) reads them.
//
// Source: OpenFlow Switch Specification 1.3.5, sections 5 and 7.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "match/fields/match.h"
#include "pipeline/terms/actions.h"
#include "pipeline/terms/numbers.h"

namespace headrace::pipeline {

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
