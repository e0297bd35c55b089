// SPDX-License-Identifier: Apache-2.0
// Random pipelines and packets, from one source of choices: a seeded generator in the property
// test, the fuzzer's bytes in the fuzz target.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "pipeline/terms/flow_types.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {

/// Yields a number below its argument.
using Choose = std::function<uint64_t(uint64_t below)>;

inline constexpr PortNo kRandomPorts = 4;

struct RandomPipeline {
  std::vector<GroupMod> groups;
  std::vector<FlowMod> flows;
};

/// Groups of all types, then up to four tables: each of a fast-path class of its own, so that all
/// classifiers occur. Where several flows match a packet their priorities differ.
RandomPipeline make_pipeline(const Choose& choose);

/// Another set of instructions for a flow of that table.
InstructionList make_instructions(const Choose& choose, uint8_t table, size_t n_groups);

/// A frame that has a fair chance to match: few values per field, all kinds of headers, now and
/// then cut short or damaged.
Bytes make_random_frame(const Choose& choose);

}  // namespace headrace::pipeline::test
