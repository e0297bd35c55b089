// SPDX-License-Identifier: Apache-2.0
// Packets of rules of the forward class: edited and sent, nothing of them is left. Homogeneous
// bursts go through the loops of forward.h; others packet by packet, in one loop.
#pragma once

#include <span>

#include "pipeline/execute/execution.h"
#include "pipeline/execute/forward.h"
#include "pipeline/execute/rule_runner.h"

namespace headrace::pipeline {

/// Some packets of the burst at work with the indices of the rules that they hit.
[[nodiscard]] inline ForwardBurst forward_burst(const Execution& x, const uint32_t* rules,
                                                std::span<const uint8_t> active) {
  return {x.burst.program->rules, rules,          active,         x.main.packets,
          x.main.parsed,          x.main.lengths, x.burst.counts, x.burst.metadata};
}

/// Counts and forwards packets whose rules are homogeneous.
void run_homogeneous(Execution& x, const ForwardBurst& homogeneous) noexcept;

/// Forwards packets that all hit `rule`, whose index x.rules holds for each, counted already.
void forward_one_rule(Execution& x, const Rule& rule, std::span<const uint8_t> active) noexcept;

/// Forwards packets of any rules of the class, counted already. `hashes`: by position, what
/// flow_hash64() returns for each; null: not known yet.
void forward_rules(Execution& x, const RuleBurst& burst, const uint64_t* hashes = nullptr) noexcept;

}  // namespace headrace::pipeline
