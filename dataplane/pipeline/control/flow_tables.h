// SPDX-License-Identifier: Apache-2.0
// All flow tables of one LSI: OFPT_FLOW_MOD, timeouts, and the rules and classifiers that workers
// run.
//
// Every command is a transaction in three steps: change the flow tables' records (flow_table.h);
// bring the classifiers up to date; retire what left. A command of a few flows changes the
// classifier in place, flow by flow. A command that touches much of a table, a bundle, or a flow
// that needs packets parsed deeper than before, leaves the published classifier alone and builds
// another from the flow tables' records at the end, so that workers see the change at once, with
// the new program. A bundle that is small beside a table changes a copy of its classifier in place:
// copying memory costs a small part of building.
//
// Where more than kBuiltAtOnce flows are to be built anew, a TableBuilder does it on another
// thread, from the flow tables' records, while workers run the old classifiers. Until that is done
// (building()) the records must not change: the owner keeps further commands back.
//
// When very many flows have gone, the memory of their rules, counters and records goes back to the
// kernel.
//
// Retired flows give up their rule slot and counter, and are reported to observers, after a grace
// period: then their counts are final.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "match/table/compiled_table.h"
#include "pipeline/control/compiler.h"
#include "pipeline/control/flow_table.h"
#include "pipeline/control/lsi.h"
#include "pipeline/program/program.h"

namespace headrace::pipeline {

/// Tables with no more flows than this are planned and built on the control thread: up to some 0.1
/// s for those that take longest.
inline constexpr size_t kBuiltAtOnce = 1000;

/// Rules (and other counted things) that an LSI has room for.
inline constexpr uint32_t kMaxRules = 4u << 20;

class FlowTables {
 public:
  using RemovedCallback = std::function<void(const FlowStats&, FlowRemovedReason)>;

  FlowTables(const LsiConfig& config, uint64_t hz, CounterSpace& counters, Reclaimer& reclaimer,
             RemovedCallback removed);
  ~FlowTables();

  /// One command, with what `resolver` knows. Look at needs_publishing() afterwards.
  OfResult<> apply(const FlowMod& mod, Resolver& resolver, uint64_t now);

  /// Removes all flows that refer to a group (kGroupAll: any group) or to a meter (kMeterAll: any).
  void remove_users_of_group(uint32_t group_id);
  void remove_users_of_meter(uint32_t meter_id);

  /// Removes flows whose time has come; true if there were any.
  bool expire(uint64_t now);

  /// Between begin_bundle() and its end, commands change only the flow tables' records.
  /// commit_bundle() builds the classifiers of the tables that changed; abort_bundle() undoes the
  /// commands. `commands`: how many there will be, about.
  void begin_bundle(size_t commands);
  void commit_bundle();
  void abort_bundle();

  /// Reports each change of a flow to `watcher`; null: to none.
  void watch(FlowWatcher watcher) { watcher_ = std::move(watcher); }

  /// Packets must be parsed for these words, too (group buckets).
  void require(match::WordSet words);

  /// Hands what the last changes took out of use to the Reclaimer. Call it when the program is
  /// published that no longer leads there.
  void retire();

  /// True while classifiers are being built: nothing but reading and fill() is allowed.
  [[nodiscard]] bool building() const { return building_; }
  /// Called on the control thread when building ends.
  void on_built(std::function<void()> built) { built_ = std::move(built); }
  /// Waits until nothing is being built.
  void wait_until_built();

  /// True if a new LsiProgram is needed for the last change to be seen.
  [[nodiscard]] bool needs_publishing() const { return needs_publishing_; }
  void require_publishing() { needs_publishing_ = true; }
  /// Fills in tables, rules and depth.
  void fill(LsiProgram& program);

  OfResult<> for_each(const FlowFilter& filter, uint64_t now,
                      const std::function<void(const FlowStats&)>& visit) const;
  /// Calls `visit` with the flow whose rule this is; false: there is none.
  bool describe_rule(uint8_t table_id, RuleIndex rule, uint64_t now,
                     const std::function<void(const FlowStats&)>& visit) const;
  /// Calls `visit` for the flows that packets can match, table by table.
  void for_each_head(const std::function<void(const Flow&)>& visit) const;
  /// Counts packets that took a flow without a worker's seeing them. A flow that has left its table
  /// counts no more; its table does.
  void account(Flow& flow, uint64_t packets, uint64_t octets);
  /// Flows in all tables.
  [[nodiscard]] size_t size() const;
  [[nodiscard]] std::vector<TableStats> table_stats() const;
  /// Flows that refer to a group or meter.
  [[nodiscard]] uint32_t count_users_of_group(uint32_t group_id) const;
  [[nodiscard]] uint32_t count_users_of_meter(uint32_t meter_id) const;

 private:
  struct Table {
    FlowTable flows;
    std::shared_ptr<match::CompiledTable> compiled;  ///< null: none published
    /// In a bundle that changes a copy, `compiled`: what is published. Else null.
    std::shared_ptr<match::CompiledTable> published;
    std::shared_ptr<match::CompiledTable> next;  ///< while another is built: that one
    std::shared_ptr<bool> next_is_seen;          ///< by workers; its Defer asks
    bool dirty{false};      ///< `compiled` is behind the flow tables' records: build another
    uint64_t rebuilds{0};   ///< of those before `compiled`
    uint64_t accounted{0};  ///< packets that workers did not see; all matched
  };
  /// What a transaction has taken out of use.
  struct Retired {
    std::shared_ptr<Flow> flow;  ///< null: only the slot (the flow lives on, modified)
    RuleIndex rule{kNoRule};
    FlowRemovedReason reason{};
  };

  OfResult<> add(const FlowMod& mod, Resolver& resolver, uint64_t now);
  OfResult<> modify(const FlowMod& mod, Resolver& resolver, uint64_t now);
  OfResult<> remove(const FlowMod& mod, uint64_t now);
  [[nodiscard]] std::vector<Flow*> chosen(Table& table, const FlowMod& mod, bool strict,
                                          bool filter_outputs) const;
  void remove_where(const std::function<bool(const Flow&)>& predicate, FlowRemovedReason reason);

  // Primitives: records, classifier (unless the table is dirty) and undo log.
  void install(Table& table, std::shared_ptr<Flow> flow);
  std::shared_ptr<Flow> uninstall(Table& table, Flow& flow);
  /// Takes the last one back out of what is to be retired. Steps are undone in reverse, so it is
  /// the last of all: a million of them are undone in a million moves.
  void unretire(const std::function<bool(const Retired&)>& is_it);
  void swap_rule(Table& table, Flow& flow, RuleIndex rule);
  void retire_flow(Table& table, Flow& flow, FlowRemovedReason reason);
  /// Tells the watcher, or in a bundle keeps it for the commit.
  void note(const std::shared_ptr<Flow>& flow, FlowChange change, FlowRemovedReason reason = {});

  [[nodiscard]] std::optional<RuleIndex> new_rule(CompiledRule compiled, CounterIndex counter);
  void release_rule(RuleIndex rule);
  void trim_if_worth_it();
  Table& table(uint8_t table_id);
  void mark_dirty(Table& table);
  /// Makes the tables dirty that a change of `flows` flows is better built anew for.
  void prepare(Table& table, size_t flows);
  void need_words(Table& table, match::WordSet words);
  void finish();
  void make_next(Table& table);
  void adopt();
  // A flow that is in the flow tables' records has its deadline and its references noted; it enters
  // and leaves with them, also when its instructions or timeouts change.
  void enter(Flow& flow);
  void leave(Flow& flow);
  [[nodiscard]] uint64_t idle_cycles(const Flow& flow, uint64_t now) const;
  [[nodiscard]] uint64_t next_deadline(const Flow& flow, uint64_t now) const;
  [[nodiscard]] FlowStats stats(const Flow& flow, uint64_t now) const;

  const LsiConfig& config_;
  uint64_t hz_;
  CounterSpace& counters_;
  Reclaimer& reclaimer_;
  RemovedCallback removed_;
  match::Defer defer_;

  VirtualArray<Rule> rules_{kMaxRules, Pages::as_used};
  std::vector<std::unique_ptr<RuleBody>> bodies_;  ///< by rule
  IndexPool rule_indices_{1, kMaxRules};           ///< rule 0 is no flow
  size_t given_up_{0};                             ///< flows since the last trim()

  std::array<std::unique_ptr<Table>, kTableCount> tables_;
  std::set<std::pair<uint64_t, Flow*>> deadlines_;
  std::unordered_map<uint32_t, uint32_t> group_users_;  ///< flows by group
  std::unordered_map<uint32_t, uint32_t> meter_users_;  ///< flows by meter
  match::WordSet words_{0};
  bool any_dirty_{false};  ///< some table may be
  bool needs_publishing_{true};

  bool building_{false};
  std::function<void()> built_;

  bool in_bundle_{false};
  size_t bundle_commands_{0};
  std::vector<std::function<void()>> undo_;
  match::WordSet words_before_bundle_{0};
  FlowWatcher watcher_;
  struct Noted {
    std::shared_ptr<Flow> flow;
    FlowChange change;
    FlowRemovedReason reason;
  };
  std::vector<Noted> noted_;  ///< of the bundle that is under way
  std::vector<Retired> retired_;
  std::vector<Retired> undone_;    ///< what a bundle that is being undone had made
  std::vector<Retired> in_grace_;  ///< deferred, not yet released
  std::shared_ptr<bool> alive_{std::make_shared<bool>(true)};
};

}  // namespace headrace::pipeline
