// SPDX-License-Identifier: Apache-2.0
// Compiles actions and instructions to what workers run, and refuses what cannot be run, with the
// error that OpenFlow names for it.
//
// A rule compiles to a RuleBody, which holds in full what it does, and to a Rule, one cache line
// with all of it if it is of the classes forward, go or drop (FastPathClass), and with all but its
// ops else. What an action compiles to is its operation's to say (pipeline/operations). Rules that
// do the same operations in the same order share a number (GeneralRule::action_class), so that the
// executor runs them together on a burst.
#pragma once

#include <memory>

#include "pipeline/program/program.h"
#include "pipeline/program/resolver.h"
#include "pipeline/terms/flow_types.h"

namespace headrace::pipeline {

/// Compiles a list in its own order, for where it stands.
OfResult<std::vector<Op>> compile_actions(const ActionList& actions, ActionContext context,
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

/// What a group's bucket does, as an action set: fills ops, rule, action_class and edits.
void compile_bucket(const std::vector<Op>& ops, CounterIndex counter, BucketProgram& bucket);

/// Compiles a flow's instructions, checking them against its table.
OfResult<CompiledRule> compile_rule(const FlowMod& mod, Resolver& resolver);

}  // namespace headrace::pipeline
