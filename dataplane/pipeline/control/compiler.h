// SPDX-License-Identifier: Apache-2.0
// Compiles actions and instructions to what workers run, and refuses what cannot be run, with the
// error that OpenFlow names for it.
//
// A rule compiles to a RuleBody, which says in full what it does, and to a Rule, one cache line
// that holds all of it if it has one of the usual fast-path classes (FastPathClass). Recognising a
// fast-path class is the whole of "code generation": the executor has a loop of its own for each,
// built by the C++ compiler, and a rule only fills in its constants.
#pragma once

#include <memory>

#include "pipeline/program/program.h"
#include "pipeline/terms/flow_types.h"

namespace headrace::pipeline {

/// Where the compiler finds the handles that numbers stand for.
class Resolver {
 public:
  virtual ~Resolver() = default;
  /// The handle of a port, made if need be: a rule may name a port that is yet to come.
  virtual const PortHandle* port_handle(PortNo number) = 0;
  /// The handle of a group or meter that exists, or null.
  virtual const GroupHandle* group_handle(uint32_t group_id) = 0;
  virtual const MeterHandle* meter_handle(uint32_t meter_id) = 0;
};

/// Compiles a list in its own order. `packet_out` allows output to the flow tables.
OfResult<std::vector<Op>> compile_actions(const ActionList& actions, bool packet_out,
                                          Resolver& resolver);

/// Puts `ops` in the order in which an action set runs, the last of each kind winning; and only the
/// group, if there is one, not the output (section 5.10).
std::vector<Op> as_action_set(const std::vector<Op>& ops);

/// The FlowKey words that running these ops relies on.
[[nodiscard]] match::WordSet words_of(const std::vector<Op>& ops);

/// A rule compiled but for its counter.
struct CompiledRule {
  Rule rule;
  std::unique_ptr<RuleBody> body;  ///< rule.body points to it
  match::WordSet words{0};         ///< what its match and its actions need extracted
};

/// A group's bucket that does `ops`, as the forward class if that is all that they are. They must
/// outlive it.
[[nodiscard]] Rule compile_bucket(const std::vector<Op>& ops, CounterIndex counter);

/// Compiles a flow's instructions, checking them against its table.
OfResult<CompiledRule> compile_rule(const FlowMod& mod, Resolver& resolver);

}  // namespace headrace::pipeline
