// SPDX-License-Identifier: Apache-2.0
// The second half of every change of the flow tables: building, publishing, retiring; timeouts;
// and reading.
#include <malloc.h>

#include <algorithm>
#include <utility>

#include "pipeline/control/flow_tables.h"
#include "pipeline/control/port_table.h"
#include "pipeline/terms/of_errors.h"

namespace headrace::pipeline {
namespace {

/// Empties a vector that may have been very long, and gives up its memory.
template <typename T>
void give_up(std::vector<T>& vector) {
  std::vector<T>().swap(vector);
}

}  // namespace

void FlowTables::finish() {
  if (in_bundle_ || !any_dirty_) return;
  any_dirty_ = false;
  size_t flows = 0;
  std::vector<std::shared_ptr<match::CompiledTable>> made;
  for (const std::unique_ptr<Table>& table : tables_) {
    if (table == nullptr || !table->dirty) continue;
    flows += table->flows.size();
    make_next(*table);
    if (table->next != nullptr) made.push_back(table->next);
  }
  const auto build = [made = std::move(made)] {
    for (const auto& each : made) each->rebuild();
  };
  if (config_.builder == nullptr || flows <= kBuiltAtOnce) {
    build();
    adopt();
    return;
  }
  building_ = true;
  config_.builder->build(build, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    building_ = false;
    adopt();
    if (built_) built_();
  });
}

void FlowTables::make_next(Table& table) {
  if (table.flows.size() == 0) return;
  // Before workers see it, nobody has to be waited for; and it is not this thread that fills it.
  table.next_is_seen = std::make_shared<bool>(false);
  table.next = std::make_shared<match::CompiledTable>(
      [this, seen = table.next_is_seen](std::function<void()> free) {
        if (*seen) {
          defer_(std::move(free));
        } else {
          free();
        }
      },
      [flows = &table.flows](const match::CompiledTable::RuleVisitor& visit) {
        flows->for_each_head(
            [&](const Flow& flow) { visit(flow.match, flow.priority, flow.rule); });
      },
      kNoRule, config_.builder == nullptr ? SIZE_MAX : kBuiltAtOnce);
}

/// What was built, or copied and changed, takes the place of what is published.
void FlowTables::adopt() {
  for (const std::unique_ptr<Table>& table : tables_) {
    if (table == nullptr || (!table->dirty && table->published == nullptr)) continue;
    needs_publishing_ = true;
    // The old classifiers are freed when their last program is.
    table->published.reset();
    if (!std::exchange(table->dirty, false)) continue;
    if (table->compiled != nullptr) table->rebuilds += table->compiled->rebuilds();
    table->compiled = std::exchange(table->next, nullptr);
    if (table->next_is_seen != nullptr) *std::exchange(table->next_is_seen, nullptr) = true;
  }
}

void FlowTables::wait_until_built() {
  if (building_) config_.builder->wait();
}

void FlowTables::retire() {
  // One grace period at a time: what is retired during one waits for the next.
  if (retired_.empty() || !in_grace_.empty()) return;
  in_grace_.swap(retired_);
  reclaimer_.defer([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    std::vector<Retired> done = std::move(in_grace_);
    in_grace_.clear();
    const uint64_t now = config_.clock.now();
    for (const Retired& retired : done) {
      if (retired.flow != nullptr) {
        if ((retired.flow->flags & kFlowSendRemoved) != 0) {
          removed_(stats(*retired.flow, now), retired.reason);
        }
        counters_.release(retired.flow->counter);
        ++given_up_;
      }
      release_rule(retired.rule);
    }
    give_up(done);
    trim_if_worth_it();
    retire();
  });
}

/// Gives memory back when more flows have gone than there are left, and very many.
void FlowTables::trim_if_worth_it() {
  constexpr size_t kWorthIt = 50'000;
  if (given_up_ < kWorthIt || given_up_ < size()) return;
  given_up_ = 0;
  counters_.trim();
  rule_indices_.trim([this](RuleIndex first, uint32_t count) { rules_.give_back(first, count); });
  bodies_.resize(rule_indices_.limit());
  bodies_.shrink_to_fit();
  // The allocator keeps what is not at the end of its heap, and takes long to look through all.
  const auto trim_heap = [] { malloc_trim(0); };
  if (config_.builder == nullptr) {
    trim_heap();
  } else {
    config_.builder->build(trim_heap, [] {});
  }
}

void FlowTables::begin_bundle(size_t commands) {
  in_bundle_ = true;
  bundle_commands_ = commands;
  words_before_bundle_ = words_;
}

void FlowTables::commit_bundle() {
  in_bundle_ = false;
  give_up(undo_);
  finish();
  if (!building_) adopt();  // copies alone
  for (const Noted& noted : std::exchange(noted_, {})) {
    note(noted.flow, noted.change, noted.reason);
  }
}

void FlowTables::abort_bundle() {
  // No published classifier was touched: with the flow tables' records as they were, all is as it
  // was.
  for (auto step = undo_.rbegin(); step != undo_.rend(); ++step) (*step)();
  give_up(undo_);
  std::move(undone_.begin(), undone_.end(), std::back_inserter(retired_));
  give_up(undone_);
  give_up(noted_);
  in_bundle_ = false;
  words_ = words_before_bundle_;
  any_dirty_ = false;
  for (const std::unique_ptr<Table>& table : tables_) {
    if (table == nullptr) continue;
    table->dirty = false;
    if (table->published != nullptr) table->compiled = std::move(table->published);
  }
}

void FlowTables::fill(LsiProgram& program) {
  program.rules = rules_.data();
  program.counters = &counters_;
  program.depth = match::depth_for(words_);
  program.extract = match::extractor_for(program.depth);
  for (size_t id = 0; id < tables_.size(); ++id) {
    if (tables_[id] == nullptr) continue;
    // Not the copy of a bundle of which another part is still being built.
    const Table& table = *tables_[id];
    const auto& compiled = table.published != nullptr ? table.published : table.compiled;
    program.tables[id] = compiled.get();
    if (compiled != nullptr) program.keep.push_back(compiled);
  }
  needs_publishing_ = false;
}

// --- timeouts ----------------------------------------------------------------------------------

uint64_t FlowTables::idle_cycles(const Flow& flow, uint64_t now) const {
  const uint64_t age = now - flow.created;
  const uint32_t last = std::atomic_ref<uint32_t>(counters_.last_used()[flow.counter])
                            .load(std::memory_order_relaxed);
  if (last == 0) return age;
  const auto since = static_cast<uint32_t>(now >> kTickShift) - last;
  // A worker's clock may be a little ahead of the one that `now` was read from.
  const uint64_t idle = static_cast<int32_t>(since) < 0 ? 0 : uint64_t{since} << kTickShift;
  return std::min(age, idle);
}

uint64_t FlowTables::next_deadline(const Flow& flow, uint64_t now) const {
  uint64_t deadline = ~uint64_t{0};
  if (flow.hard_timeout != 0) deadline = flow.created + flow.hard_timeout * hz_;
  if (flow.idle_timeout != 0) {
    deadline = std::min(deadline, now - idle_cycles(flow, now) + flow.idle_timeout * hz_);
  }
  return deadline;
}

void FlowTables::enter(Flow& flow) {
  for (uint32_t group : groups_of(flow.instructions)) ++group_users_[group];
  if (const std::optional<uint32_t> meter = meter_of(flow.instructions)) ++meter_users_[*meter];
  if (flow.idle_timeout == 0 && flow.hard_timeout == 0) return;
  flow.deadline = next_deadline(flow, config_.clock.now());
  deadlines_.emplace(flow.deadline, &flow);
}

void FlowTables::leave(Flow& flow) {
  const auto drop_user = [](std::unordered_map<uint32_t, uint32_t>& users, uint32_t id) {
    if (--users[id] == 0) users.erase(id);
  };
  for (uint32_t group : groups_of(flow.instructions)) drop_user(group_users_, group);
  if (const std::optional<uint32_t> meter = meter_of(flow.instructions)) {
    drop_user(meter_users_, *meter);
  }
  if (flow.deadline != 0) deadlines_.erase({flow.deadline, &flow});
  flow.deadline = 0;
}

bool FlowTables::expire(uint64_t now) {
  bool removed = false;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Flow& flow = *deadlines_.begin()->second;
    Table& table = *tables_[flow.table_id];
    const bool hard = flow.hard_timeout != 0 && now >= flow.created + flow.hard_timeout * hz_;
    if (hard || next_deadline(flow, now) <= now) {
      retire_flow(table, flow,
                  hard ? FlowRemovedReason::hard_timeout : FlowRemovedReason::idle_timeout);
      removed = true;
    } else {
      deadlines_.erase(deadlines_.begin());
      flow.deadline = next_deadline(flow, now);
      deadlines_.emplace(flow.deadline, &flow);
    }
  }
  if (removed) finish();
  return removed;
}

// --- reading -----------------------------------------------------------------------------------

FlowStats FlowTables::stats(const Flow& flow, uint64_t now) const {
  const Count count = counters_.sum(flow.counter);
  return {.table_id = flow.table_id,
          .priority = flow.priority,
          .idle_timeout = flow.idle_timeout,
          .hard_timeout = flow.hard_timeout,
          .flags = flow.flags,
          .cookie = flow.cookie,
          .packets = count.packets - flow.base.packets,
          .bytes = count.bytes - flow.base.bytes,
          .duration = to_duration(now - flow.created, hz_),
          .idle_seconds = hz_ == 0 ? 0 : idle_cycles(flow, now) / hz_,
          .match = flow.match,
          .instructions = flow.instructions};
}

OfResult<> FlowTables::for_each(const FlowFilter& filter, uint64_t now,
                                const std::function<void(const FlowStats&)>& visit) const {
  if (filter.table_id >= kTableCount && filter.table_id != kTableAll) {
    return tl::unexpected(of_error::kBadRequestBadTable);
  }
  for (size_t id = 0; id < tables_.size(); ++id) {
    if (tables_[id] == nullptr || (filter.table_id != kTableAll && filter.table_id != id)) continue;
    tables_[id]->flows.select(filter.match, [&](Flow& flow) {
      if (((flow.cookie ^ filter.cookie) & filter.cookie_mask) == 0 &&
          refers_to_port(flow.instructions, filter.out_port) &&
          refers_to_group(flow.instructions, filter.out_group)) {
        visit(stats(flow, now));
      }
    });
  }
  return {};
}

bool FlowTables::describe_rule(uint8_t table_id, RuleIndex rule, uint64_t now,
                               const std::function<void(const FlowStats&)>& visit) const {
  const Flow* found = nullptr;
  if (tables_[table_id] != nullptr && rule != kNoRule) {
    tables_[table_id]->flows.for_each_head([&](const Flow& flow) {
      if (flow.rule == rule) found = &flow;
    });
  }
  if (found != nullptr) visit(stats(*found, now));
  return found != nullptr;
}

void FlowTables::for_each_head(const std::function<void(const Flow&)>& visit) const {
  for (const std::unique_ptr<Table>& table : tables_) {
    if (table != nullptr) table->flows.for_each_head(visit);
  }
}

void FlowTables::account(Flow& flow, uint64_t packets, uint64_t octets) {
  tables_[flow.table_id]->accounted += packets;
  if (flow.self == nullptr) return;
  // What a flow shows is its counter less its base.
  flow.base.packets -= packets;
  flow.base.bytes -= octets;
}

size_t FlowTables::size() const {
  size_t flows = 0;
  for (const std::unique_ptr<Table>& table : tables_) {
    if (table != nullptr) flows += table->flows.size();
  }
  return flows;
}

std::vector<TableStats> FlowTables::table_stats() const {
  std::vector<TableStats> all(kTableCount);
  for (size_t id = 0; id < tables_.size(); ++id) {
    TableStats& stats = all[id];
    stats.table_id = static_cast<uint8_t>(id);
    stats.max_entries = config_.max_flows_per_table;
    stats.structure = "empty";
    stats.reason = "no rules";
    for (unsigned worker = 0; worker < kMaxWorkers; ++worker) {
      const TableCount& count = counters_.worker_counts(worker).tables[id];
      stats.lookups += read(count.lookups);
      stats.matched += read(count.matched);
    }
    if (tables_[id] == nullptr) continue;
    stats.lookups += tables_[id]->accounted;
    stats.matched += tables_[id]->accounted;
    if (tables_[id]->compiled == nullptr) continue;
    stats.active = static_cast<uint32_t>(tables_[id]->flows.size());
    stats.structure = std::string(tables_[id]->compiled->structure());
    stats.reason = tables_[id]->compiled->reason();
    stats.masks = tables_[id]->compiled->masks();
    stats.memory_bytes = tables_[id]->compiled->memory_bytes();
    stats.rebuilds = tables_[id]->rebuilds + tables_[id]->compiled->rebuilds();
  }
  return all;
}

uint32_t FlowTables::count_users_of_group(uint32_t group_id) const {
  const auto found = group_users_.find(group_id);
  return found == group_users_.end() ? 0 : found->second;
}

uint32_t FlowTables::count_users_of_meter(uint32_t meter_id) const {
  const auto found = meter_users_.find(meter_id);
  return found == meter_users_.end() ? 0 : found->second;
}

}  // namespace headrace::pipeline
