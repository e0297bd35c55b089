// SPDX-License-Identifier: Apache-2.0
#include "pipeline/control/lsi.h"

#include <rte_cycles.h>

#include <algorithm>

#include "pipeline/control/flow_tables.h"
#include "pipeline/control/group_table.h"
#include "pipeline/control/meter_table.h"
#include "pipeline/control/mirror_table.h"
#include "pipeline/control/port_table.h"
#include "pipeline/control/sole_path.h"
#include "pipeline/execute/tunnel_port.h"
#include "pipeline/program/mac_table.h"
#include "pipeline/terms/of_errors.h"

namespace headrace::pipeline {

/// Learned addresses are forgotten after this time unseen; OVS's default.
constexpr uint64_t kMacAgeSeconds = 300;

struct Lsi::State final : Resolver {
  State(const LsiConfig& config, Reclaimer& reclaimer)
      : config(config),
        reclaimer(reclaimer),
        hz(config.clock.hz != 0 ? config.clock.hz : rte_get_tsc_hz()),
        macs(static_cast<uint32_t>(kMacAgeSeconds * hz >> kTickShift)),
        groups(counters, reclaimer, hz, config.max_groups),
        meters(counters, reclaimer, hz, config.max_meters),
        flows(config, hz, counters, reclaimer,
              [this](const FlowStats& flow, FlowRemovedReason reason) {
                for (LsiObserver* observer : observers) observer->flow_removed(flow, reason);
              }) {}

  const PortCell* port_cell(PortNo number) override { return ports.cell(number); }
  const GroupCell* group_cell(uint32_t group_id) override { return groups.cell(group_id); }
  const MeterCell* meter_cell(uint32_t meter_id) override { return meters.cell(meter_id); }

  [[nodiscard]] uint64_t now() const { return config.clock.now(); }

  /// Before a change, and before counts are read.
  void settle() const {
    if (paths != nullptr) paths->settle();
  }
  void changed() const {
    if (paths != nullptr) paths->changed();
  }

  /// Ports or their VLANs have changed, or mirrors.
  void place_mirrors() {
    if (auto old = mirrors.place(ports); !old.empty()) {
      reclaimer.defer([old = std::move(old)] {});
    }
  }

  void tell(PortNo port, PortChange change) {
    if (const std::optional<PortDesc> desc = ports.desc(port)) {
      for (LsiObserver* observer : observers) observer->port_changed(*desc, change);
    }
  }

  /// What a group's buckets need of a packet.
  void require_for(const GroupMod& mod) {
    match::WordSet words = 1u << 3 | 1u << 4;
    for (const Bucket& bucket : mod.buckets) {
      if (const auto ops = compile_actions(bucket.actions, false, *this)) words |= words_of(*ops);
    }
    flows.require(words);
  }

  OfResult<> apply_group(const GroupMod& mod) {
    GroupMod::Command command = mod.command;
    if (command == GroupMod::Command::add_or_modify) {
      command = groups.config(mod.group_id) != nullptr ? GroupMod::Command::modify
                                                       : GroupMod::Command::add;
    }
    switch (command) {
      case GroupMod::Command::add:
        if (OfResult<> done = groups.add(mod, *this, now()); !done) return done;
        break;
      case GroupMod::Command::modify:
        if (OfResult<> done = groups.modify(mod, *this); !done) return done;
        break;
      case GroupMod::Command::remove:
        if (mod.group_id > kGroupMax && mod.group_id != kGroupAll) {
          return tl::unexpected(of_error::kGroupInvalid);
        }
        if (OfResult<> done = groups.remove(mod.group_id); !done) return done;
        flows.remove_users_of_group(mod.group_id);
        return {};
      case GroupMod::Command::add_or_modify:
        break;  // it is one of the others
    }
    require_for(mod);
    return {};
  }

  OfResult<> apply_meter(const MeterMod& mod) {
    switch (mod.command) {
      case MeterMod::Command::add:
        return meters.add(mod, now());
      case MeterMod::Command::modify:
        return meters.modify(mod);
      case MeterMod::Command::remove:
        meters.remove(mod.meter_id);
        flows.remove_users_of_meter(mod.meter_id);
        return {};
    }
    return tl::unexpected(of_error::kMeterInvalid);
  }

  OfResult<> apply(const BundleItem& item) {
    if (const auto* flow = std::get_if<FlowMod>(&item)) return flows.apply(*flow, *this, now());
    if (const auto* group = std::get_if<GroupMod>(&item)) return apply_group(*group);
    if (const auto* port = std::get_if<PortMod>(&item)) return ports.check(*port);
    return apply_meter(std::get<MeterMod>(item));
  }

  /// What undoes a change of one group or meter; nothing for flows, which undo themselves.
  std::optional<BundleItem> inverse_of(const BundleItem& item) const {
    if (const auto* group = std::get_if<GroupMod>(&item)) {
      GroupMod inverse;
      inverse.group_id = group->group_id;
      inverse.command = GroupMod::Command::remove;
      if (const GroupMod* present = groups.config(group->group_id)) {
        inverse = *present;
        inverse.command = group->command == GroupMod::Command::remove ? GroupMod::Command::add
                                                                      : GroupMod::Command::modify;
      }
      return inverse;
    }
    if (const auto* meter = std::get_if<MeterMod>(&item)) {
      MeterMod inverse;
      inverse.meter_id = meter->meter_id;
      inverse.command = MeterMod::Command::remove;
      if (const MeterMod* present = meters.config(meter->meter_id)) {
        inverse = *present;
        inverse.command = meter->command == MeterMod::Command::remove ? MeterMod::Command::add
                                                                      : MeterMod::Command::modify;
      }
      return inverse;
    }
    return std::nullopt;
  }

  const LsiConfig& config;
  Reclaimer& reclaimer;
  uint64_t hz;
  CounterSpace counters{kMaxRules};
  PortTable ports;
  MacTable macs;
  GroupTable groups;
  MeterTable meters;
  FlowTables flows;
  MirrorTable mirrors;
  std::vector<LsiObserver*> observers;
  PathWatcher* paths{nullptr};
  FragmentMode fragments{FragmentMode::normal};
  std::shared_ptr<Defragmenter> defragmenter;
};

Lsi::Lsi(LsiConfig config, Reclaimer& reclaimer)
    : config_(std::move(config)), state_(std::make_unique<State>(config_, reclaimer)) {
  publish();
}

Lsi::~Lsi() {
  delete program_.load(std::memory_order_relaxed);
}

void Lsi::publish() {
  auto* program = new LsiProgram;
  program->lsi_id = config_.id;
  state_->flows.fill(*program);
  program->macs = &state_->macs;
  program->defragmenter = state_->defragmenter;
  program->drops_fragments = state_->fragments == FragmentMode::drop;
  if (program->drops_fragments && program->depth < packet::Depth::l4) {
    program->depth = packet::Depth::l4;
    program->extract = match::extractor_for(program->depth);
  }
  program->ports = state_->ports.published();
  for (const Port* port : program->ports) {
    if (port->number < program->low_ports.size()) program->low_ports[port->number] = port;
  }
  const LsiProgram* old = program_.exchange(program, std::memory_order_acq_rel);
  if (old != nullptr) state_->reclaimer.defer([old] { delete old; });
}

void Lsi::publish_if_needed() {
  if (state_->flows.needs_publishing()) publish();
}

// --- flows, groups, meters ---------------------------------------------------------------------

OfResult<> Lsi::flow_mod(const FlowMod& mod) {
  state_->settle();
  OfResult<> done = state_->flows.apply(mod, *state_, state_->now());
  publish_if_needed();
  state_->flows.retire();
  state_->changed();
  return done;
}

OfResult<> Lsi::group_mod(const GroupMod& mod) {
  state_->settle();
  OfResult<> done = state_->apply_group(mod);
  publish_if_needed();
  state_->flows.retire();
  state_->changed();
  return done;
}

OfResult<> Lsi::meter_mod(const MeterMod& mod) {
  state_->settle();
  OfResult<> done = state_->apply_meter(mod);
  publish_if_needed();
  state_->flows.retire();
  state_->changed();
  return done;
}

tl::expected<void, BundleFailure> Lsi::apply_bundle(std::span<const BundleItem> items) {
  State& state = *state_;
  if (items.size() == 1 && std::holds_alternative<FlowMod>(items[0])) {
    if (OfResult<> done = flow_mod(std::get<FlowMod>(items[0])); !done) {
      return tl::unexpected(BundleFailure{0, done.error()});
    }
    return {};
  }
  state.settle();
  // Groups and meters that a bundle changes change at once; to undo is to change them back. Ports
  // change last, when nothing can fail any more.
  std::vector<BundleItem> undo;
  state.flows.begin_bundle(items.size());
  for (size_t index = 0; index < items.size(); ++index) {
    std::optional<BundleItem> inverse = state.inverse_of(items[index]);
    OfResult<> done = state.apply(items[index]);
    if (done) {
      if (inverse) undo.push_back(std::move(*inverse));
      continue;
    }
    state.flows.abort_bundle();
    for (auto step = undo.rbegin(); step != undo.rend(); ++step) (void)state.apply(*step);
    state.flows.retire();
    return tl::unexpected(BundleFailure{index, done.error()});
  }
  state.flows.commit_bundle();
  publish_if_needed();
  state.flows.retire();
  for (const BundleItem& item : items) {
    if (const auto* port = std::get_if<PortMod>(&item)) (void)port_mod(*port);
  }
  state.changed();
  return {};
}

void Lsi::set_fragments(FragmentMode mode, std::shared_ptr<Defragmenter> defragmenter) {
  if (mode == state_->fragments) return;
  state_->settle();
  state_->fragments = mode;
  state_->defragmenter = mode == FragmentMode::reassemble ? std::move(defragmenter) : nullptr;
  publish();
  state_->changed();
}

FragmentMode Lsi::fragments() const {
  return state_->fragments;
}

void Lsi::expire() {
  const bool removed = state_->flows.expire(state_->now());
  state_->macs.expire(static_cast<uint32_t>(state_->now() >> kTickShift));
  publish_if_needed();
  state_->flows.retire();
  if (removed) state_->changed();
}

// --- reading -----------------------------------------------------------------------------------

OfResult<> Lsi::for_each_flow(const FlowFilter& filter,
                              const std::function<void(const FlowStats&)>& visit) const {
  state_->settle();
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
  state_->settle();
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
  state_->settle();
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
  return state_->macs.list(static_cast<uint32_t>(state_->now() >> kTickShift));
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

void Lsi::credit(const PathLeg& leg, uint64_t packets, uint64_t octets) {
  state_->ports.credit(leg.in, leg.out, packets, octets);
  for (const std::shared_ptr<Flow>& flow : leg.rules) state_->flows.credit(*flow, packets, octets);
}

// --- ports -------------------------------------------------------------------------------------

Result<> Lsi::add_port(const PortSpec& spec) {
  if (Result<> added = state_->ports.add(spec, false, state_->now()); !added) return added;
  state_->place_mirrors();
  publish();
  state_->tell(spec.number, PortChange::added);
  state_->changed();
  return {};
}

Result<> Lsi::add_patch(const PortSpec& spec) {
  if (Result<> added = state_->ports.add(spec, true, state_->now()); !added) return added;
  state_->place_mirrors();
  publish();
  state_->tell(spec.number, PortChange::added);
  state_->changed();
  return {};
}

Result<> Lsi::add_tunnel(const PortSpec& spec) {
  PortSpec tunnel = spec;
  tunnel.tunnel = true;
  if (Result<> added = add_patch(tunnel); !added) return added;
  // The outer header takes the flow's entropy, and IP is what tunnels of layer 3 carry.
  state_->flows.require(1u << 3 | 1u << 4);
  publish_if_needed();
  return {};
}

Result<> Lsi::add_defragmenter(const PortSpec& spec, std::shared_ptr<Defragmenter> defragmenter) {
  if (Result<> added = add_patch(spec); !added) return added;
  Result<> set = state_->ports.set_defragmenter(spec.number, std::move(defragmenter), this);
  state_->changed();
  return set;
}

void Lsi::set_tunnel(PortNo port, std::shared_ptr<const TunnelEgress> egress, Lsi* underlay) {
  std::shared_ptr<const void> old = state_->ports.set_tunnel(port, std::move(egress), underlay);
  if (old != nullptr) state_->reclaimer.defer([old = std::move(old)] {});
  state_->changed();
}

std::shared_ptr<const Port> Lsi::tunnel_inlet(PortNo port) {
  auto inlet = std::make_shared<Port>();
  inlet->detour.store(Detour::patch, std::memory_order_relaxed);
  inlet->peer.store(this, std::memory_order_relaxed);
  inlet->peer_port.store(port, std::memory_order_relaxed);
  return inlet;
}

bool Lsi::set_ingress_tunnels(std::shared_ptr<const TunnelIngress> tunnels) {
  auto old = state_->ports.set_ingress_tunnels(kPortLocal, std::move(tunnels));
  if (!old) return false;
  if (*old != nullptr) state_->reclaimer.defer([old = std::move(*old)] {});
  state_->changed();
  return true;
}

Result<> Lsi::connect(Lsi& a, PortNo port_a, Lsi& b, PortNo port_b) {
  if (a.state_->ports.peer(port_a).first != nullptr) {
    return fail("patch {} of {}: has a peer already", port_a, a.config_.name);
  }
  if (b.state_->ports.peer(port_b).first != nullptr) {
    return fail("patch {} of {}: has a peer already", port_b, b.config_.name);
  }
  if (&a == &b && port_a == port_b) {
    return fail("patch {} of {}: cannot be its own peer", port_a, a.config_.name);
  }
  if (Result<> done = a.state_->ports.set_peer(port_a, &b, port_b); !done) return done;
  if (Result<> done = b.state_->ports.set_peer(port_b, &a, port_a); !done) {
    (void)a.state_->ports.set_peer(port_a, nullptr, 0);
    return done;
  }
  a.state_->changed();
  return {};
}

void Lsi::disconnect(PortNo port) {
  const auto [peer, peer_port] = state_->ports.peer(port);
  if (peer == nullptr) return;
  state_->settle();
  (void)peer->state_->ports.set_peer(peer_port, nullptr, 0);
  (void)state_->ports.set_peer(port, nullptr, 0);
  state_->changed();
}

Result<> Lsi::remove_port(PortNo port) {
  state_->settle();
  disconnect(port);
  const std::optional<PortDesc> desc = state_->ports.desc(port);
  // Workers look ports up in the program: the new one goes out before the port is reclaimed.
  std::shared_ptr<const Port> gone;
  if (Result<> removed = state_->ports.remove(port, gone); !removed) return removed;
  publish();
  state_->reclaimer.defer([gone = std::move(gone), port, this] { state_->macs.forget_port(port); });
  for (LsiObserver* observer : state_->observers) {
    observer->port_changed(*desc, PortChange::removed);
  }
  state_->changed();
  return {};
}

void Lsi::set_link(PortNo port, bool up, uint32_t speed_kbps) {
  if (!state_->ports.set_link(port, up, speed_kbps)) return;
  state_->tell(port, PortChange::modified);
  state_->changed();
}

void Lsi::set_port_io(PortNo port, PortIo& io) {
  state_->ports.set_io(port, io);
}

void Lsi::set_port_vlans(PortNo port, const std::optional<PortVlans>& vlans) {
  std::shared_ptr<const void> old = state_->ports.set_vlans(port, vlans);
  // Workers may learn by the old rules until then.
  state_->reclaimer.defer([old = std::move(old), port, this] { state_->macs.forget_port(port); });
  state_->place_mirrors();
}

OfResult<> Lsi::port_mod(const PortMod& mod) {
  const std::optional<PortDesc> before = state_->ports.desc(mod.port);
  OfResult<> done = state_->ports.configure(mod);
  if (done && before->config != state_->ports.desc(mod.port)->config) {
    state_->tell(mod.port, PortChange::modified);
    state_->changed();
  }
  return done;
}

// --- mirrors -----------------------------------------------------------------------------------

Result<> Lsi::set_mirrors(std::vector<MirrorConfig> mirrors) {
  state_->settle();
  if (Result<> set = state_->mirrors.set(std::move(mirrors)); !set) return set;
  state_->place_mirrors();
  state_->changed();
  return {};
}

std::map<std::string, MirrorStats> Lsi::mirror_stats() const {
  return state_->mirrors.stats();
}

// --- packet-out, events ------------------------------------------------------------------------

OfResult<std::unique_ptr<ActionProgram>> Lsi::compile(const ActionList& actions) const {
  OfResult<std::vector<Op>> ops = compile_actions(actions, true, *state_);
  if (!ops) return tl::unexpected(ops.error());
  return std::make_unique<ActionProgram>(std::move(*ops));
}

void Lsi::watch_flows(FlowWatcher watcher) {
  state_->flows.watch(std::move(watcher));
}

void Lsi::add_observer(LsiObserver& observer) {
  state_->observers.push_back(&observer);
}

void Lsi::remove_observer(LsiObserver& observer) {
  std::erase(state_->observers, &observer);
}

}  // namespace headrace::pipeline
