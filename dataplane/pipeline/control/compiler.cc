// SPDX-License-Identifier: Apache-2.0
#include "pipeline/control/compiler.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "pipeline/operations/rewrite.h"
#include "pipeline/terms/of_errors.h"

namespace headrace::pipeline {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;  // clang 14 needs to be told

/// Numbers for sequences of operations: see GeneralRule::action_class. What was given a number
/// keeps it for the life of the process, as rules of any LSI may be in a burst's way; there are as
/// many as different sequences were ever used. Thread safety: any thread.
class ActionClasses {
 public:
  uint32_t number_of(std::vector<uintptr_t> key) {
    const std::lock_guard lock(mutex_);
    return numbers_.try_emplace(std::move(key), static_cast<uint32_t>(numbers_.size()))
        .first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::vector<uintptr_t>, uint32_t> numbers_;
};

ActionClasses& action_classes() {
  static ActionClasses classes;
  return classes;
}

std::vector<uintptr_t> operations_of(const std::vector<Op>& ops) {
  std::vector<uintptr_t> key;
  key.reserve(ops.size() + 4);
  for (const Op& op : ops) key.push_back(reinterpret_cast<uintptr_t>(op.operation));
  return key;
}

/// Fills `rule` as FastPathClass::forward if that is all the ops do.
bool fuse_forward(const std::vector<Op>& ops, Rule& rule) {
  rule.edits = 0;
  rule.forward = ForwardRule{};
  for (const Op& op : ops) {
    if (rule.forward.out != nullptr) return false;  // something follows the output
    const bool outputs = op.operation->order == SetOrder::output;
    // What follows a tunnel would edit the outer header.
    if ((rule.edits & kEditTunnel) != 0 && !outputs) return false;
    if (op.operation->fuse == nullptr || !op.operation->fuse(op, rule)) return false;
  }
  if (rule.forward.out == nullptr) return false;
  rule.fast_path = FastPathClass::forward;
  return true;
}

/// Chooses the rule's class; `ops`: as written, before any were put together.
void choose_fast_path(Rule& rule, const std::vector<Op>& ops) {
  const RuleBody& body = *rule.body;
  const GeneralRule& general = body.general;
  const bool final = rule.next_table == kNoTable;
  // The executor takes the classes forward and drop only for packets whose action set is still
  // empty, so what this rule writes is the whole of the set.
  if (general.meter == nullptr && final && (general.flags & kClearsSet) == 0) {
    if (ops.empty()) {
      rule.fast_path = FastPathClass::drop;
      return;
    }
    Rule fused = rule;
    if (fuse_forward(ops, fused)) {
      rule = fused;
      return;
    }
  }
  const bool only_goto = !final && general.meter == nullptr && general.n_ops == 0 &&
                         (general.flags & (kClearsSet | kWritesSet)) == 0;
  rule.fast_path = only_goto ? FastPathClass::go : FastPathClass::general;
  rule.general = general;
}

}  // namespace

OfResult<std::vector<Op>> compile_actions(const ActionList& actions, ActionContext context,
                                          Resolver& resolver) {
  std::vector<Op> ops;
  ops.reserve(actions.size());
  for (const Action& action : actions) {
    OfResult<Op> op = action.operation().compile(action, context, resolver);
    if (!op) return tl::unexpected(op.error());
    ops.push_back(std::move(*op));
  }
  return ops;
}

std::vector<Op> as_action_set(const std::vector<Op>& ops) {
  std::vector<Op> set;
  const auto order = [](const Op& op) { return op.operation->order; };
  const auto before = [&](const Op& a, const Op& b) { return order(a) < order(b); };
  for (const Op& op : ops) {
    std::erase_if(set, [&](const Op& other) { return other.set_slot == op.set_slot; });
    // At its place at once: std::stable_sort's buffer is not aligned as ops are.
    set.insert(std::upper_bound(set.begin(), set.end(), op, before), op);
  }
  const bool grouped = std::any_of(set.begin(), set.end(),
                                   [&](const Op& op) { return order(op) == SetOrder::group; });
  if (grouped) std::erase_if(set, [&](const Op& op) { return order(op) == SetOrder::output; });
  return set;
}

match::WordSet words_of(const std::vector<Op>& ops) {
  match::WordSet words = 0;
  for (const Op& op : ops) {
    if (op.operation->reads != nullptr) words |= op.operation->reads(op);
  }
  return words;
}

void compile_bucket(const std::vector<Op>& ops, CounterIndex counter, BucketProgram& bucket) {
  const std::vector<Op> set = as_action_set(ops);
  bucket.ops = with_rewrites(set);
  bucket.action_class = action_classes().number_of(operations_of(bucket.ops));
  bucket.edits = std::any_of(set.begin(), set.end(),
                             [](const Op& op) { return op.operation->order != SetOrder::output; });
  Rule rule{};
  rule.fast_path = FastPathClass::general;
  rule.next_table = kNoTable;
  rule.counter = counter;
  Rule fused = rule;
  bucket.rule = fuse_forward(set, fused) ? fused : rule;
}

namespace {

/// The instructions of a flow, compiled one by one.
struct Instructions {
  std::vector<Op> apply;
  std::vector<Op> write;
};

OfResult<> compile_instruction(const Instruction& instruction, const FlowMod& mod,
                               Resolver& resolver, Rule& rule, RuleBody& body,
                               Instructions& compiled) {
  const auto list = [&](const ActionList& actions, std::vector<Op>& to) -> OfResult<> {
    OfResult<std::vector<Op>> ops = compile_actions(actions, ActionContext::flow, resolver);
    if (!ops) return tl::unexpected(ops.error());
    to = std::move(*ops);
    return {};
  };
  return std::visit(Overloaded{
                        [&](const GotoTable& i) -> OfResult<> {
                          if (i.table_id <= mod.table_id || i.table_id >= kTableCount) {
                            return tl::unexpected(of_error::kBadInstructionTableId);
                          }
                          rule.next_table = i.table_id;
                          return {};
                        },
                        [&](const WriteMetadata& i) -> OfResult<> {
                          body.general.metadata = __builtin_bswap64(i.metadata & i.mask);
                          body.general.metadata_mask = __builtin_bswap64(i.mask);
                          return {};
                        },
                        [&](const WriteActions& i) { return list(i.actions, compiled.write); },
                        [&](const ApplyActions& i) { return list(i.actions, compiled.apply); },
                        [&](const ClearActions&) -> OfResult<> {
                          body.general.flags |= kClearsSet;
                          return {};
                        },
                        [&](const MeterInstruction& i) -> OfResult<> {
                          body.general.meter = resolver.meter_handle(i.meter_id);
                          if (body.general.meter == nullptr)
                            return tl::unexpected(of_error::kMeterUnknown);
                          return {};
                        },
                    },
                    instruction);
}

/// Fills in what the ops are and do; the body keeps them.
void fill_general(RuleBody& body, const Instructions& compiled, bool final) {
  GeneralRule& general = body.general;
  body.ops = with_rewrites(compiled.apply);
  general.n_apply = static_cast<uint16_t>(body.ops.size());
  for (Op& op : body.ops) {
    op.refresh_key = !final;
    if (op.operation->changes != nullptr) general.changes |= op.operation->changes(op);
    if (op.operation->changes_layout) general.flags |= kChangesLayout;
    if (op.operation->changes_length) general.flags |= kChangesLength;
  }
  if (!compiled.write.empty()) {
    general.flags |= kWritesSet;
    body.write = compiled.write;
  }
  if (final) {
    for (Op& op : with_rewrites(as_action_set(compiled.write))) body.ops.push_back(std::move(op));
  }
  general.n_ops = static_cast<uint16_t>(body.ops.size());
  general.ops = body.ops.data();
  std::vector<uintptr_t> key = operations_of(body.ops);
  key.push_back(general.n_apply);
  key.push_back(general.flags);
  key.push_back(general.meter != nullptr ? 1 : 0);
  key.push_back(final ? 1 : 0);
  general.action_class = action_classes().number_of(std::move(key));
}

}  // namespace

OfResult<CompiledRule> compile_rule(const FlowMod& mod, Resolver& resolver) {
  CompiledRule compiled;
  compiled.body = std::make_unique<RuleBody>();
  RuleBody& body = *compiled.body;
  Rule& rule = compiled.rule;
  rule = Rule{};
  rule.next_table = kNoTable;
  rule.body = &body;
  rule.track_idle = mod.idle_timeout != 0 ? 1 : 0;
  body.cookie = mod.cookie;
  body.table_id = mod.table_id;
  body.table_miss = mod.priority == 0 && mod.match.words == 0;

  Instructions instructions;
  uint32_t seen = 0;
  for (const Instruction& instruction : mod.instructions) {
    const uint32_t bit = 1u << instruction.index();
    if ((seen & bit) != 0) return tl::unexpected(of_error::kBadInstructionDuplicate);
    seen |= bit;
    if (OfResult<> done = compile_instruction(instruction, mod, resolver, rule, body, instructions);
        !done) {
      return tl::unexpected(done.error());
    }
  }
  const bool final = rule.next_table == kNoTable;
  compiled.words = mod.match.words | words_of(instructions.apply) | words_of(instructions.write);
  if (body.general.meter != nullptr) compiled.words |= 1u << 3 | 1u << 4;  // a DSCP may be remarked
  fill_general(body, instructions, final);
  std::vector<Op> all = std::move(instructions.apply);
  if (final) {
    for (Op& op : as_action_set(instructions.write)) all.push_back(std::move(op));
  }
  choose_fast_path(rule, all);
  return compiled;
}

}  // namespace headrace::pipeline
