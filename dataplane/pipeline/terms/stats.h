// SPDX-License-Identifier: Apache-2.0
// What a pipeline tells about itself: the answers to OpenFlow's multipart requests and to the
// operator's questions, decoded. All counts are exact sums over the workers at the time of reading.
//
// Source: OpenFlow Switch Specification 1.3.5, sections 7.2.1 and 7.3.5.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/terms/drop_reason.h"
#include "pipeline/terms/flow_types.h"

namespace headrace::pipeline {

/// Time since something was made.
struct Duration {
  uint32_t seconds{0};
  uint32_t nanoseconds{0};  ///< beyond `seconds`
};

/// Which flows a request means (flow and aggregate stats, non-strict delete).
struct FlowFilter {
  uint8_t table_id{kTableAll};
  PortNo out_port{kPortAny};
  uint32_t out_group{kGroupAny};
  uint64_t cookie{0};
  uint64_t cookie_mask{0};
  match::Match match;  ///< selects flows whose match is as specific or more
};

/// One flow (ofp_flow_stats). The references are good during the call that hands it out.
struct FlowStats {
  uint8_t table_id;
  uint16_t priority;
  uint16_t idle_timeout;
  uint16_t hard_timeout;
  uint16_t flags;
  uint64_t cookie;
  uint64_t packets;
  uint64_t bytes;
  Duration duration;
  uint64_t idle_seconds;  ///< since the last packet, or since it was installed
  const match::Match& match;
  const InstructionList& instructions;
};

enum class FlowRemovedReason : uint8_t { idle_timeout, hard_timeout, removed, group_removed };

/// What became of a flow. One that an add replaces is added.
enum class FlowChange : uint8_t { added, removed, modified };

struct AggregateStats {
  uint64_t packets{0};
  uint64_t bytes{0};
  uint32_t flows{0};
};

/// ofp_table_stats, and how the table was compiled.
struct TableStats {
  uint8_t table_id{0};
  uint32_t active{0};  ///< rules, the table-miss entry included
  uint32_t max_entries{0};
  uint64_t lookups{0};
  uint64_t matched{0};
  std::string structure;  ///< "empty", "direct", "hash-word", "hash", "prefix", "bit-vectors",
                          ///< "trees-and-vectors", "decision-tree", "tuple-space"
  std::string reason;     ///< why this one, in words
  size_t masks{0};        ///< structures that a look-up may have to search
  size_t memory_bytes{0};
  uint64_t rebuilds{0};  ///< times that it was planned and built from all its rules
};

/// What a worker spent on a table while timing was on, in TSC cycles.
struct TableTimes {
  unsigned worker{0};
  uint8_t table_id{0};
  uint64_t packets{0};
  uint64_t lookup_cycles{0};
  uint64_t action_cycles{0};  ///< of the rules' actions, sending included
};

inline constexpr uint32_t kPortConfigDown = 1 << 0;
inline constexpr uint32_t kPortConfigNoReceive = 1 << 2;
inline constexpr uint32_t kPortConfigNoForward = 1 << 5;
inline constexpr uint32_t kPortConfigNoPacketIn = 1 << 6;
inline constexpr uint32_t kPortStateLinkDown = 1 << 0;
inline constexpr uint32_t kPortStateBlocked = 1 << 1;
inline constexpr uint32_t kPortStateLive = 1 << 2;

/// ofp_port.
struct PortDesc {
  PortNo number{0};
  std::string name;
  MacAddress mac{};
  uint32_t config{0};   ///< ofp_port_config
  uint32_t state{0};    ///< ofp_port_state
  uint32_t current{0};  ///< ofp_port_features
  uint32_t advertised{0};
  uint32_t supported{0};
  uint32_t peer{0};
  uint32_t current_speed{0};  ///< kbit/s
  uint32_t max_speed{0};      ///< kbit/s
};

enum class PortChange : uint8_t { added, removed, modified };  ///< values of ofp_port_reason

/// ofp_port_stats, as the pipeline counts (the device's own errors are the port kind's to add).
struct PortStats {
  PortNo number{0};
  uint64_t rx_packets{0};
  uint64_t tx_packets{0};
  uint64_t rx_bytes{0};
  uint64_t tx_bytes{0};
  uint64_t rx_dropped{0};       ///< received and refused by the port's configuration
  uint64_t tx_dropped{0};       ///< the port took fewer packets than offered, or they were too long
  uint64_t tx_mtu_exceeded{0};  ///< of tx_dropped: longer than the port's MTU
  Duration duration;
};

/// ofp_queue_stats. Queue 0 is the only one that every port has.
struct QueueStats {
  PortNo port{0};
  uint32_t queue_id{0};
  uint64_t tx_packets{0};
  uint64_t tx_bytes{0};
  uint64_t tx_errors{0};
  Duration duration;
};

struct BucketStats {
  uint64_t packets{0};
  uint64_t bytes{0};
};

struct GroupStats {
  uint32_t group_id{0};
  uint32_t references{0};  ///< flows and buckets that refer to it
  uint64_t packets{0};
  uint64_t bytes{0};
  Duration duration;
  std::vector<BucketStats> buckets;
};

struct GroupDesc {
  uint32_t group_id{0};
  GroupMod::Type type{GroupMod::Type::all};
  std::vector<Bucket> buckets;
};

struct MeterStats {
  uint32_t meter_id{0};
  uint32_t flows{0};
  uint64_t packets{0};
  uint64_t bytes{0};
  Duration duration;
  std::vector<BucketStats> bands;
};

struct MeterConfig {
  uint32_t meter_id{0};
  uint16_t flags{0};
  std::vector<MeterBand> bands;
};

/// An address that NORMAL has learned.
struct LearnedMac {
  MacAddress mac{};
  uint16_t vlan{0};  ///< VID; 0: untagged
  PortNo port{0};
  uint32_t age{0};  ///< seconds since it was seen
};

/// Packets dropped, by reason; index is DropReason.
using DropCounts = std::array<uint64_t, kDropReasons>;

}  // namespace headrace::pipeline
