// SPDX-License-Identifier: Apache-2.0
// The control side's state of an LSI: its tables of flows, groups, meters, ports and mirrors,
// and how a change of one reaches the others. For lsi*.cc only.
#pragma once

#include <rte_cycles.h>

#include "packet/mac_table.h"
#include "pipeline/control/flow_tables.h"
#include "pipeline/control/group_table.h"
#include "pipeline/control/lsi.h"
#include "pipeline/control/meter_table.h"
#include "pipeline/control/mirror_table.h"
#include "pipeline/control/port_table.h"
#include "pipeline/terms/of_errors.h"

namespace headrace::pipeline {

/// Addresses that NORMAL learns at most.
inline constexpr size_t kLearnedMacs = 65'536;

struct Lsi::State final : Resolver {
  State(const LsiConfig& config, Reclaimer& reclaimer)
      : config(config),
        reclaimer(reclaimer),
        hz(config.clock.hz != 0 ? config.clock.hz : rte_get_tsc_hz()),
        macs(kLearnedMacs, mac_age()),
        groups(counters, reclaimer, hz, config.max_groups),
        meters(counters, reclaimer, hz, config.max_meters),
        flows(config, hz, counters, reclaimer,
              [this](const FlowStats& flow, FlowRemovedReason reason) {
                for (LsiObserver* observer : observers) observer->flow_removed(flow, reason);
              }) {}

  const PortHandle* port_handle(PortNo number) override { return ports.handle(number); }
  const GroupHandle* group_handle(uint32_t group_id) override { return groups.handle(group_id); }
  const MeterHandle* meter_handle(uint32_t meter_id) override { return meters.handle(meter_id); }

  [[nodiscard]] uint64_t now() const { return config.clock.now(); }
  /// In ticks.
  [[nodiscard]] uint32_t mac_age() const {
    return static_cast<uint32_t>(static_cast<uint64_t>(normal.mac_age.count()) * hz >> kTickShift);
  }

  /// Before a change, and before counts are read.
  void account() const {
    if (paths != nullptr) paths->account();
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
      if (const auto ops = compile_actions(bucket.actions, ActionContext::bucket, *this))
        words |= words_of(*ops);
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

  const LsiConfig& config;
  Reclaimer& reclaimer;
  uint64_t hz;
  NormalConfig normal{};
  CounterSpace counters{kMaxRules};
  PortTable ports;
  packet::MacTable macs;
  GroupTable groups;
  MeterTable meters;
  FlowTables flows;
  MirrorTable mirrors;
  std::vector<LsiObserver*> observers;
  std::vector<std::function<void()>> waiting;  ///< for the change that is being built
  std::vector<PortMod> last;                   ///< of a bundle: when all else is visible
  PathWatcher* paths{nullptr};
  uint64_t version{0};  ///< of the program that is published
  FragmentMode fragments{FragmentMode::normal};
  std::shared_ptr<Defragmenter> defragmenter;
};

}  // namespace headrace::pipeline
