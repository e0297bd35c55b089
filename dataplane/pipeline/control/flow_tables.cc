// SPDX-License-Identifier: Apache-2.0
#include "pipeline/control/flow_tables.h"

#include <algorithm>

#include "pipeline/control/port_table.h"
#include "pipeline/terms/of_errors.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kKnownFlags = kFlowSendRemoved | kFlowCheckOverlap | kFlowResetCounts |
                                 kFlowNoPacketCounts | kFlowNoByteCounts;

/// A bundle of no more commands than this part of a table's flows changes a copy.
constexpr size_t kCopiedShare = 8;

bool cookie_fits(const Flow& flow, uint64_t cookie, uint64_t mask) {
  return ((flow.cookie ^ cookie) & mask) == 0;
}

}  // namespace

FlowTables::FlowTables(const LsiConfig& config, uint64_t hz, CounterSpace& counters,
                       Reclaimer& reclaimer, RemovedCallback removed)
    : config_(config),
      hz_(hz),
      counters_(counters),
      reclaimer_(reclaimer),
      removed_(std::move(removed)),
      defer_([&reclaimer](std::function<void()> free) { reclaimer.defer(std::move(free)); }) {
  Rule& miss = rules_[kNoRule];
  miss = Rule{};
  miss.fast_path = FastPathClass::drop;
  miss.next_table = kNoTable;
  miss.counter = *counters_.allocate();
  bodies_.push_back(std::make_unique<RuleBody>());
  miss.body = bodies_[0].get();
}

FlowTables::~FlowTables() {
  alive_.reset();  // what is built comes too late
  wait_until_built();
}

FlowTables::Table& FlowTables::table(uint8_t table_id) {
  std::unique_ptr<Table>& table = tables_[table_id];
  if (table == nullptr) table = std::make_unique<Table>();
  return *table;
}

// --- rules -------------------------------------------------------------------------------------

std::optional<RuleIndex> FlowTables::new_rule(CompiledRule compiled, CounterIndex counter) {
  const std::optional<RuleIndex> index = rule_indices_.take();
  if (!index) return index;
  if (*index >= bodies_.size()) bodies_.resize(*index + 1);
  compiled.rule.counter = counter;
  rules_.expect(*index);
  rules_[*index] = compiled.rule;
  bodies_[*index] = std::move(compiled.body);
  return index;
}

void FlowTables::release_rule(RuleIndex rule) {
  bodies_[rule].reset();
  rule_indices_.give(rule);
}

// --- primitives --------------------------------------------------------------------------------

void FlowTables::mark_dirty(Table& table) {
  table.dirty = true;
  any_dirty_ = true;
}

void FlowTables::prepare(Table& table, size_t flows) {
  // Building anew costs about as much per flow as changing in place, but for all of the table.
  const size_t size = table.flows.size();
  if (table.compiled == nullptr || (flows > 64 && flows > size / 2)) return mark_dirty(table);
  if (!in_bundle_ || table.dirty || table.published != nullptr) return;
  std::shared_ptr<match::CompiledTable> copy;
  if (bundle_commands_ <= size / kCopiedShare) copy = table.compiled->clone();
  if (copy == nullptr) return mark_dirty(table);
  table.published = std::exchange(table.compiled, std::move(copy));
}

void FlowTables::need_words(Table& table, match::WordSet words) {
  if (match::depth_for(words_ | words) != match::depth_for(words_)) mark_dirty(table);
  words_ |= words;
}

void FlowTables::require(match::WordSet words) {
  // Only actions of groups rely on these: no classifier looks at them, so none is built anew.
  if (match::depth_for(words_ | words) != match::depth_for(words_)) needs_publishing_ = true;
  words_ |= words;
}

void FlowTables::install(Table& table, std::shared_ptr<Flow> owned) {
  Flow& flow = *owned;
  Flow* shadowed = table.flows.head(flow.match);
  table.flows.insert(std::move(owned));
  enter(flow);
  if (in_bundle_) {
    undo_.emplace_back([this, &table, &flow] {
      leave(flow);
      flow.flags &= static_cast<uint16_t>(~kFlowSendRemoved);  // it never was
      undone_.push_back({table.flows.remove(flow), flow.rule, FlowRemovedReason::removed});
    });
  }
  if (table.dirty) return;
  if (shadowed != nullptr && shadowed->priority > flow.priority) return;
  const bool fits =
      table.compiled->insert(flow.match, flow.priority, flow.rule) &&
      (shadowed == nullptr || table.compiled->erase(shadowed->match, shadowed->priority));
  if (!fits) mark_dirty(table);
}

std::shared_ptr<Flow> FlowTables::uninstall(Table& table, Flow& flow) {
  const bool was_head = table.flows.head(flow.match) == &flow;
  leave(flow);
  std::shared_ptr<Flow> owned = table.flows.remove(flow);
  if (in_bundle_) {
    undo_.emplace_back([this, &table, owned] {
      unretire([&](const Retired& r) { return r.flow == owned; });
      table.flows.insert(owned);
      enter(*owned);
    });
  }
  if (table.dirty || !was_head) return owned;
  const Flow* next = table.flows.head(owned->match);
  const bool fits =
      (next == nullptr || table.compiled->insert(next->match, next->priority, next->rule)) &&
      table.compiled->erase(owned->match, owned->priority);
  if (!fits) mark_dirty(table);
  return owned;
}

void FlowTables::swap_rule(Table& table, Flow& flow, RuleIndex rule) {
  retired_.push_back({nullptr, flow.rule, {}});
  flow.rule = rule;
  if (table.dirty || table.flows.head(flow.match) != &flow) return;
  if (!table.compiled->replace(flow.match, flow.priority, rule)) mark_dirty(table);
}

void FlowTables::retire_flow(Table& table, Flow& flow, FlowRemovedReason reason) {
  const RuleIndex rule = flow.rule;
  retired_.push_back({uninstall(table, flow), rule, reason});
  note(retired_.back().flow, FlowChange::removed, reason);
}

void FlowTables::unretire(const std::function<bool(const Retired&)>& is_it) {
  const auto last = std::find_if(retired_.rbegin(), retired_.rend(), is_it);
  if (last != retired_.rend()) retired_.erase(std::next(last).base());
}

void FlowTables::note(const std::shared_ptr<Flow>& flow, FlowChange change,
                      FlowRemovedReason reason) {
  if (!watcher_) return;
  if (in_bundle_) {
    noted_.push_back({flow, change, reason});
    return;
  }
  watcher_(stats(*flow, config_.clock.now()), change, reason);
}

// --- transactions ------------------------------------------------------------------------------

OfResult<> FlowTables::apply(const FlowMod& mod, Resolver& resolver, uint64_t now) {
  const bool removes =
      mod.command == FlowMod::Command::remove || mod.command == FlowMod::Command::remove_strict;
  if (mod.table_id >= kTableCount && !(removes && mod.table_id == kTableAll)) {
    return tl::unexpected(of_error::kFlowModBadTableId);
  }
  if ((mod.flags & ~kKnownFlags) != 0) return tl::unexpected(of_error::kFlowModBadFlags);
  OfResult<> done;
  switch (mod.command) {
    case FlowMod::Command::add:
      done = add(mod, resolver, now);
      break;
    case FlowMod::Command::modify:
    case FlowMod::Command::modify_strict:
      done = modify(mod, resolver, now);
      break;
    case FlowMod::Command::remove:
    case FlowMod::Command::remove_strict:
      done = remove(mod, now);
      break;
    default:
      return tl::unexpected(of_error::kFlowModBadCommand);
  }
  finish();
  return done;
}

OfResult<> FlowTables::add(const FlowMod& mod, Resolver& resolver, uint64_t now) {
  OfResult<CompiledRule> compiled = compile_rule(mod, resolver);
  if (!compiled) return tl::unexpected(compiled.error());
  Table& table = this->table(mod.table_id);
  if ((mod.flags & kFlowCheckOverlap) != 0 && table.flows.overlaps(mod.match, mod.priority)) {
    return tl::unexpected(of_error::kFlowModOverlap);
  }
  Flow* present = table.flows.find(mod.match, mod.priority);
  if (present == nullptr && table.flows.size() >= config_.max_flows_per_table) {
    return tl::unexpected(of_error::kFlowModTableFull);
  }
  std::optional<CounterIndex> counter;
  counter = present != nullptr ? present->counter : counters_.allocate();
  if (!counter) return tl::unexpected(of_error::kFlowModTableFull);
  const match::WordSet words = compiled->words;
  const std::optional<RuleIndex> rule = new_rule(std::move(*compiled), *counter);
  if (!rule) {
    if (present == nullptr) counters_.release(*counter);
    return tl::unexpected(of_error::kFlowModTableFull);
  }
  need_words(table, words);
  prepare(table, 1);
  if (present == nullptr) {
    auto flow = std::make_shared<Flow>();
    flow->table_id = mod.table_id;
    flow->priority = mod.priority;
    flow->idle_timeout = mod.idle_timeout;
    flow->hard_timeout = mod.hard_timeout;
    flow->flags = mod.flags;
    flow->cookie = mod.cookie;
    flow->match = mod.match;
    flow->instructions = mod.instructions;
    flow->created = now;
    flow->rule = *rule;
    flow->counter = *counter;
    install(table, flow);
    note(flow, FlowChange::added);
    return {};
  }
  // The flow is replaced; its counts stay unless told otherwise, its duration starts again, and
  // no removal is reported (section 6.4).
  if (in_bundle_) {
    undo_.emplace_back([this, present, idle = present->idle_timeout, hard = present->hard_timeout,
                        flags = present->flags, cookie = present->cookie, match = present->match,
                        instructions = present->instructions, created = present->created,
                        base = present->base, rule = present->rule] {
      leave(*present);
      undone_.push_back({nullptr, present->rule, {}});
      unretire([&](const Retired& r) { return r.rule == rule; });
      present->idle_timeout = idle;
      present->hard_timeout = hard;
      present->flags = flags;
      present->cookie = cookie;
      present->match = match;
      present->instructions = instructions;
      present->created = created;
      present->base = base;
      present->rule = rule;
      enter(*present);
    });
  }
  leave(*present);
  present->idle_timeout = mod.idle_timeout;
  present->hard_timeout = mod.hard_timeout;
  present->flags = mod.flags;
  present->cookie = mod.cookie;
  present->match.fields = mod.match.fields;  // the same match, maybe spelt in another order
  present->instructions = mod.instructions;
  present->created = now;
  if ((mod.flags & kFlowResetCounts) != 0) present->base = counters_.sum(*counter);
  swap_rule(table, *present, *rule);
  enter(*present);
  note(present->self, FlowChange::added);
  return {};
}

std::vector<Flow*> FlowTables::chosen(Table& table, const FlowMod& mod, bool strict,
                                      bool filter_outputs) const {
  std::vector<Flow*> flows;
  const auto consider = [&](Flow& flow) {
    if (!cookie_fits(flow, mod.cookie, mod.cookie_mask)) return;
    if (filter_outputs && (!refers_to_port(flow.instructions, mod.out_port) ||
                           !refers_to_group(flow.instructions, mod.out_group))) {
      return;
    }
    flows.push_back(&flow);
  };
  if (strict) {
    if (Flow* flow = table.flows.find(mod.match, mod.priority); flow != nullptr) consider(*flow);
  } else {
    table.flows.select(mod.match, consider);
  }
  return flows;
}

OfResult<> FlowTables::modify(const FlowMod& mod, Resolver& resolver, uint64_t now) {
  (void)now;
  OfResult<CompiledRule> compiled = compile_rule(mod, resolver);
  if (!compiled) return tl::unexpected(compiled.error());
  Table& table = this->table(mod.table_id);
  const std::vector<Flow*> flows =
      chosen(table, mod, mod.command == FlowMod::Command::modify_strict, false);
  if (flows.empty()) return {};
  need_words(table, compiled->words);
  prepare(table, flows.size());
  for (Flow* flow : flows) {
    // Each rule says who it is: compiled with the flow's own cookie, priority and timeout.
    FlowMod own = mod;
    own.cookie = flow->cookie;
    own.priority = flow->priority;
    own.idle_timeout = flow->idle_timeout;
    own.match = flow->match;
    const std::optional<RuleIndex> rule =
        new_rule(std::move(*compile_rule(own, resolver)), flow->counter);
    if (!rule) return tl::unexpected(of_error::kFlowModTableFull);
    if (in_bundle_) {
      undo_.emplace_back(
          [this, flow, instructions = flow->instructions, base = flow->base, rule = flow->rule] {
            undone_.push_back({nullptr, flow->rule, {}});
            unretire([&](const Retired& r) { return r.rule == rule; });
            leave(*flow);
            flow->instructions = instructions;
            flow->base = base;
            flow->rule = rule;
            enter(*flow);
          });
    }
    leave(*flow);
    flow->instructions = mod.instructions;
    enter(*flow);
    if ((mod.flags & kFlowResetCounts) != 0) flow->base = counters_.sum(flow->counter);
    swap_rule(table, *flow, *rule);
    note(flow->self, FlowChange::modified);
  }
  return {};
}

OfResult<> FlowTables::remove(const FlowMod& mod, uint64_t now) {
  (void)now;
  const bool strict = mod.command == FlowMod::Command::remove_strict;
  for (size_t id = 0; id < tables_.size(); ++id) {
    if (tables_[id] == nullptr || (mod.table_id != kTableAll && mod.table_id != id)) continue;
    Table& table = *tables_[id];
    const std::vector<Flow*> flows = chosen(table, mod, strict, true);
    if (flows.empty()) continue;
    prepare(table, flows.size());
    for (Flow* flow : flows) retire_flow(table, *flow, FlowRemovedReason::removed);
  }
  return {};
}

void FlowTables::remove_where(const std::function<bool(const Flow&)>& predicate,
                              FlowRemovedReason reason) {
  for (const std::unique_ptr<Table>& table : tables_) {
    if (table == nullptr) continue;
    std::vector<Flow*> flows;
    table->flows.select(match::Match{}, [&](Flow& flow) {
      if (predicate(flow)) flows.push_back(&flow);
    });
    if (flows.empty()) continue;
    prepare(*table, flows.size());
    for (Flow* flow : flows) retire_flow(*table, *flow, reason);
  }
  finish();
}

void FlowTables::remove_users_of_group(uint32_t group_id) {
  if (group_id == kGroupAll ? group_users_.empty() : !group_users_.contains(group_id)) return;
  remove_where(
      [group_id](const Flow& flow) {
        return group_id == kGroupAll ? !groups_of(flow.instructions).empty()
                                     : refers_to_group(flow.instructions, group_id);
      },
      FlowRemovedReason::group_removed);
}

void FlowTables::remove_users_of_meter(uint32_t meter_id) {
  if (meter_id == kMeterAll ? meter_users_.empty() : !meter_users_.contains(meter_id)) return;
  remove_where(
      [meter_id](const Flow& flow) {
        const std::optional<uint32_t> meter = meter_of(flow.instructions);
        return meter && (meter_id == kMeterAll || *meter == meter_id);
      },
      FlowRemovedReason::removed);
}

}  // namespace headrace::pipeline
