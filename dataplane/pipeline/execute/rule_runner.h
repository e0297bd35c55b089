// SPDX-License-Identifier: Apache-2.0
// Rules of the general class, on all packets of a burst that hit rules of one action class: meters,
// then op by op, then the action set, then the next table (section 5.9 orders them so). Each step
// is taken for all packets before the next, so that cache misses overlap and an op's code runs in
// one loop.
#pragma once

#include <array>
#include <span>

#include "pipeline/execute/execution.h"

namespace headrace::pipeline {

/// Packets of the burst at work with the rules that they hit, counted already.
struct RuleBurst {
  size_t count{0};
  std::array<uint8_t, kBurst> at;  ///< positions, ascending
  std::array<const Rule*, kBurst> rule;

  void add(uint8_t position, const Rule* hit) {
    at[count] = position;
    rule[count++] = hit;
  }
};

/// What a rule of any class does, as a general one.
[[nodiscard]] inline const GeneralRule& general_of(const Rule& rule) {
  return rule.fast_path == FastPathClass::go || rule.fast_path == FastPathClass::general
             ? rule.general
             : rule.body->general;
}

/// Runs any rules on any packets, action class by action class.
void run_rules(Execution& x, const RuleBurst& burst) noexcept;

/// Runs ops 0..n-1 of each packet, from burst.ops on; `may_send`: the last one may send the packets
/// themselves. What is left in `burst` afterwards was neither sent nor dropped.
void run_ops(Execution& x, OpBurst& burst, size_t n, bool may_send) noexcept;

/// Parses packets again whose headers have changed and refreshes their flow keys; what else is
/// known of them stays.
void parse_again(Execution& x, const PacketBlock& block, std::span<const uint8_t> at) noexcept;

/// A rule that only drops, on a packet of the burst at work, which is counted already.
void drop_by(Execution& x, const Rule& rule, uint8_t i) noexcept;

/// Packets that go on to a table, noted together while it is the same one.
class NextTableBatch {
 public:
  explicit NextTableBatch(Execution& x) : x_(x) {}
  ~NextTableBatch() {
    if (members_ != 0) x_.wait_at(table_, members_);
  }
  NextTableBatch(const NextTableBatch&) = delete;
  NextTableBatch& operator=(const NextTableBatch&) = delete;

  void add(uint8_t i, uint8_t table) {
    if (table != table_) [[unlikely]] {
      if (members_ != 0) x_.wait_at(table_, members_);
      members_ = 0;
      table_ = table;
    }
    members_ |= PacketSet{1} << i;
  }

 private:
  Execution& x_;
  PacketSet members_{0};
  uint8_t table_{kNoTable};
};

}  // namespace headrace::pipeline
