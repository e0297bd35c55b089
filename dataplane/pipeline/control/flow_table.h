// SPDX-License-Identifier: Apache-2.0
// The control side's records of one flow table: which flows there are, found by what the controller
// says about them.
//
// Flows are grouped by mask, and within a mask hashed by value; flows of the same match and
// different priorities form a chain, highest first. So
// * a strict command finds its flow with one probe;
// * a non-strict command probes the group of its own mask and walks only the groups whose masks are
//   more specific (a group whose mask lacks a bit of the filter's can't hold a flow that it means);
// * of flows with the same match only the first of the chain can ever match a packet: the others
//   are kept out of the classifier until it goes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "pipeline/program/counters.h"
#include "pipeline/program/program.h"
#include "pipeline/terms/flow_types.h"
#include "pipeline/terms/stats.h"

namespace headrace::pipeline {

/// One flow as installed.
struct Flow {
  uint8_t table_id{0};
  uint16_t priority{0};
  uint16_t idle_timeout{0};
  uint16_t hard_timeout{0};
  uint16_t flags{0};
  uint64_t cookie{0};
  match::Match match;
  InstructionList instructions;

  uint64_t created{0};      ///< TSC
  RuleIndex rule{kNoRule};  ///< the slot that workers run
  CounterIndex counter{0};
  Count base{0, 0};      ///< the counter at the last reset, less what was accounted since
  uint64_t deadline{0};  ///< TSC of the next look at its timeouts; 0: it has none

  // Links of the table's records.
  std::shared_ptr<Flow> self;  ///< while it is in a table
  uint64_t hash{0};
  Flow* next_in_bucket{nullptr};  ///< another match
  Flow* next_lower{nullptr};      ///< the same match, lower priority
  struct MaskGroup* group{nullptr};
};

/// Flows of one mask.
struct MaskGroup {
  match::FlowKey mask{};
  match::WordSet words{0};
  std::vector<Flow*> buckets;  ///< power of two; chains of heads
  size_t heads{0};
  size_t flows{0};
};

class FlowTable {
 public:
  FlowTable() = default;
  ~FlowTable();
  FlowTable(const FlowTable&) = delete;
  FlowTable& operator=(const FlowTable&) = delete;

  /// The flow of this very match and priority, or null.
  [[nodiscard]] Flow* find(const match::Match& match, uint16_t priority) const;
  /// The highest-priority flow of this very match, or null.
  [[nodiscard]] Flow* head(const match::Match& match) const;
  /// Adds a flow; none of its match and priority may be there.
  Flow& insert(std::shared_ptr<Flow> flow);
  /// Takes a flow out.
  std::shared_ptr<Flow> remove(Flow& flow);
  /// Calls `visit` for each flow whose match is as specific as `filter` or more. `visit` must not
  /// change the table.
  void select(const match::Match& filter, const std::function<void(Flow&)>& visit) const;
  /// Calls `visit` for the flows that packets can match: the first of each chain.
  void for_each_head(const std::function<void(const Flow&)>& visit) const;
  /// True if a flow of this priority could match a packet that `match` matches too.
  [[nodiscard]] bool overlaps(const match::Match& match, uint16_t priority) const;
  [[nodiscard]] size_t size() const { return size_; }
  /// Different matches in the fullest bucket: how evenly they are spread.
  [[nodiscard]] size_t fullest_bucket() const;

 private:
  struct MaskLess {
    bool operator()(const match::FlowKey& a, const match::FlowKey& b) const {
      return std::memcmp(&a, &b, sizeof a) < 0;
    }
  };

  [[nodiscard]] MaskGroup* group_of(const match::Match& match) const;
  static Flow** slot(MaskGroup& group, const match::Match& match, uint64_t hash);
  static void grow(MaskGroup& group);

  std::map<match::FlowKey, std::unique_ptr<MaskGroup>, MaskLess> groups_;
  mutable MaskGroup* last_group_{nullptr};  ///< commands come in runs of one mask
  size_t size_{0};
};

/// True if a request with this filter means this flow.
[[nodiscard]] bool selects(const FlowFilter& filter, const FlowStats& flow);
/// True if the instructions name `port` in an output, or `port` is kPortAny.
[[nodiscard]] bool refers_to_port(const InstructionList& instructions, PortNo port);
/// True if the instructions name `group_id` in a group action, or it is kGroupAny.
[[nodiscard]] bool refers_to_group(const InstructionList& instructions, uint32_t group_id);
/// The groups that the instructions name, each once.
[[nodiscard]] std::vector<uint32_t> groups_of(const InstructionList& instructions);
/// The meter that the instructions name.
[[nodiscard]] std::optional<uint32_t> meter_of(const InstructionList& instructions);

}  // namespace headrace::pipeline
