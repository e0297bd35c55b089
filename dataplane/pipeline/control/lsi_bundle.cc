// SPDX-License-Identifier: Apache-2.0
// Bundles: many changes at once, or none of them.
#include <algorithm>
#include <iterator>
#include <set>

#include "pipeline/control/lsi.h"
#include "pipeline/control/lsi_state.h"

namespace headrace::pipeline {

namespace {

template <typename Mod>
Mod added(const Mod& config) {
  Mod mod = config;
  mod.command = Mod::Command::add;
  return mod;
}

/// What undoes `change` of a group or meter that is `present` before it, or was not there.
template <typename Mod>
Mod undoing(const Mod& change, const Mod* present) {
  using Command = typename Mod::Command;
  Mod mod = present != nullptr ? *present : change;
  if (present == nullptr) {
    mod.command = Command::remove;
  } else {
    mod.command = change.command == Command::remove ? Command::add : Command::modify;
  }
  return mod;
}

/// All groups, each behind those that its buckets name. They name each other in no circle.
std::vector<const GroupMod*> in_order(const GroupTable& groups) {
  std::vector<const GroupMod*> ordered;
  std::set<uint32_t> placed;
  const auto place = [&](const auto& self, uint32_t id) -> void {
    const GroupMod* group = groups.config(id);
    if (group == nullptr || !placed.insert(id).second) return;
    for (const Bucket& bucket : group->buckets) {
      for (const Action& action : bucket.actions) {
        if (const auto* next = action.as<GroupAction>()) self(self, next->group_id);
      }
      if (bucket.watch_group != kGroupAny) self(self, bucket.watch_group);
    }
    ordered.push_back(group);
  };
  for (const uint32_t id : groups.ids()) place(place, id);
  return ordered;
}

/// What undoes a change of groups or meters, the last step first; nothing for flows, which undo
/// themselves, and ports, which change last.
std::vector<BundleItem> inverse_of(const BundleItem& item, const GroupTable& groups,
                                   const MeterTable& meters) {
  std::vector<BundleItem> steps;
  if (const auto* group = std::get_if<GroupMod>(&item)) {
    if (group->group_id == kGroupAll) {
      for (const GroupMod* each : in_order(groups)) steps.emplace_back(added(*each));
      std::reverse(steps.begin(), steps.end());
      return steps;
    }
    steps.emplace_back(undoing(*group, groups.config(group->group_id)));
  } else if (const auto* meter = std::get_if<MeterMod>(&item)) {
    if (meter->meter_id == kMeterAll) {
      for (const uint32_t id : meters.ids()) steps.emplace_back(added(*meters.config(id)));
      return steps;
    }
    steps.emplace_back(undoing(*meter, meters.config(meter->meter_id)));
  }
  return steps;
}

}  // namespace

tl::expected<void, BundleFailure> Lsi::apply_bundle(std::span<const BundleItem> items) {
  State& state = *state_;
  if (items.size() == 1 && std::holds_alternative<FlowMod>(items[0])) {
    if (OfResult<> done = flow_mod(std::get<FlowMod>(items[0])); !done) {
      return tl::unexpected(BundleFailure{0, done.error()});
    }
    return {};
  }
  state.account();
  // Groups and meters that a bundle changes change at once; to undo is to change them back. Ports
  // change last, when nothing can fail any more.
  std::vector<BundleItem> undo;  // from the last to the first
  state.flows.begin_bundle(items.size());
  for (size_t index = 0; index < items.size(); ++index) {
    std::vector<BundleItem> inverse = inverse_of(items[index], state.groups, state.meters);
    OfResult<> done = state.apply(items[index]);
    if (done) {
      std::move(inverse.begin(), inverse.end(), std::back_inserter(undo));
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

}  // namespace headrace::pipeline
