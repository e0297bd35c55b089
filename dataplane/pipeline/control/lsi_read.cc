// SPDX-License-Identifier: Apache-2.0
// Reading an LSI: statistics, descriptions, paths.
#include "pipeline/control/lsi.h"
#include "pipeline/control/lsi_state.h"
#include "pipeline/control/point_to_point_path.h"

namespace headrace::pipeline {
namespace {

uint32_t tick_of(uint64_t tsc) {
  return static_cast<uint32_t>(tsc >> kTickShift);
}

}  // namespace

OfResult<> Lsi::for_each_flow(const FlowFilter& filter,
                              const std::function<void(const FlowStats&)>& visit) const {
  state_->account();
  return state_->flows.for_each(filter, state_->now(), visit);
}

OfResult<AggregateStats> Lsi::aggregate(const FlowFilter& filter) const {
  AggregateStats total;
  OfResult<> done = for_each_flow(filter, [&](const FlowStats& flow) {
    total.packets += flow.packets;
    total.bytes += flow.bytes;
    ++total.flows;
  });
  if (!done) return tl::unexpected(done.error());
  return total;
}

std::vector<TableStats> Lsi::table_stats() const {
  state_->account();
  return state_->flows.table_stats();
}

std::vector<GroupStats> Lsi::group_stats(uint32_t group_id) const {
  std::vector<GroupStats> all;
  for (uint32_t id : group_id == kGroupAll ? state_->groups.ids() : std::vector{group_id}) {
    std::optional<GroupStats> stats = state_->groups.stats(id, state_->now());
    if (!stats) continue;
    stats->references += state_->flows.count_users_of_group(id);
    all.push_back(std::move(*stats));
  }
  return all;
}

std::vector<GroupDesc> Lsi::group_descs() const {
  return state_->groups.descs();
}

OfResult<std::vector<MeterStats>> Lsi::meter_stats(uint32_t meter_id) const {
  if (meter_id != kMeterAll && state_->meters.config(meter_id) == nullptr) {
    return tl::unexpected(of_error::kMeterUnknown);
  }
  std::vector<MeterStats> all;
  for (uint32_t id : meter_id == kMeterAll ? state_->meters.ids() : std::vector{meter_id}) {
    all.push_back(state_->meters.stats(id, state_->now()));
    all.back().flows = state_->flows.count_users_of_meter(id);
  }
  return all;
}

OfResult<std::vector<MeterConfig>> Lsi::meter_configs(uint32_t meter_id) const {
  if (meter_id != kMeterAll && state_->meters.config(meter_id) == nullptr) {
    return tl::unexpected(of_error::kMeterUnknown);
  }
  std::vector<MeterConfig> all;
  for (uint32_t id : meter_id == kMeterAll ? state_->meters.ids() : std::vector{meter_id}) {
    const MeterMod& mod = *state_->meters.config(id);
    all.push_back({id, mod.flags, mod.bands});
  }
  return all;
}

OfResult<std::vector<PortStats>> Lsi::port_stats(PortNo port) const {
  state_->account();
  return state_->ports.stats(port, state_->now(), state_->hz);
}

std::vector<PortDesc> Lsi::port_descs() const {
  return state_->ports.descs();
}

std::optional<PortDesc> Lsi::port_desc(PortNo port) const {
  return state_->ports.desc(port);
}

std::vector<TableTimes> Lsi::table_times() const {
  std::vector<TableTimes> all;
  for (unsigned worker = 0; worker < kMaxWorkers; ++worker) {
    const WorkerCounts& counts = state_->counters.worker_counts(worker);
    for (size_t id = 0; id < kTableCount; ++id) {
      const TableTime& time = counts.times[id];
      if (read(time.packets) == 0) continue;
      all.push_back({.worker = worker,
                     .table_id = static_cast<uint8_t>(id),
                     .packets = read(time.packets),
                     .lookup_cycles = read(time.lookup_cycles),
                     .action_cycles = read(time.action_cycles)});
    }
  }
  return all;
}

DropCounts Lsi::drops(unsigned worker) const {
  const WorkerCounts& counts = state_->counters.worker_counts(worker);
  DropCounts drops{};
  for (size_t reason = 0; reason < kDropReasons; ++reason) {
    drops[reason] = read(counts.drops[reason]);
  }
  return drops;
}

DropCounts Lsi::drops() const {
  DropCounts total{};
  for (unsigned worker = 0; worker < kMaxWorkers; ++worker) {
    const DropCounts own = drops(worker);
    for (size_t reason = 0; reason < kDropReasons; ++reason) total[reason] += own[reason];
  }
  return total;
}

std::vector<LearnedMac> Lsi::learned_macs() const {
  std::vector<LearnedMac> all;
  for (const packet::MacTable::Learned& each : state_->macs.list(tick_of(state_->now()))) {
    const uint64_t age = (uint64_t{each.age} << kTickShift) / state_->hz;
    all.push_back(
        {.mac = each.mac, .vlan = each.vlan, .port = each.port, .age = static_cast<uint32_t>(age)});
  }
  return all;
}

void Lsi::forget_macs() {
  state_->macs.clear();
}

std::optional<PortNo> Lsi::find_mac(const uint8_t* mac, uint16_t vlan) const {
  return state_->macs.find(mac, vlan, tick_of(state_->now()));
}

uint64_t Lsi::now() const {
  return state_->now();
}

bool Lsi::describe_rule(uint8_t table_id, RuleIndex rule,
                        const std::function<void(const FlowStats&)>& visit) const {
  state_->account();
  return state_->flows.describe_rule(table_id, rule, state_->now(), visit);
}

const GroupMod* Lsi::group_config(uint32_t group_id) const {
  return state_->groups.config(group_id);
}

const GroupProgram* Lsi::group_program(uint32_t group_id) const {
  const GroupHandle* handle = state_->groups.handle(group_id);
  return handle == nullptr ? nullptr : handle->at(program().version);
}

std::unique_ptr<LsiPaths> Lsi::paths() const {
  return std::make_unique<LsiPaths>(state_->flows, state_->groups);
}

PortEnd Lsi::port_end(PortNo port) const {
  PortEnd end = state_->ports.end(port);
  // What goes directly meets no drop and no reassembly.
  end.changes = end.changes || state_->fragments != FragmentMode::normal;
  return end;
}

void Lsi::watch_paths(PathWatcher* watcher) {
  state_->paths = watcher;
}

void Lsi::account(const PathLeg& leg, uint64_t packets, uint64_t octets) {
  state_->ports.account(leg.in, leg.out, packets, octets);
  for (const std::shared_ptr<Flow>& flow : leg.rules) state_->flows.account(*flow, packets, octets);
}

}  // namespace headrace::pipeline
