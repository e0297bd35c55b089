// SPDX-License-Identifier: Apache-2.0
#include "pipeline/control/mirror_table.h"

#include <algorithm>
#include <set>

#include "pipeline/program/counters.h"

namespace headrace::pipeline {
namespace {

bool same_output(const MirrorConfig& a, const MirrorConfig& b) {
  return a.output_port == b.output_port && (a.output_port || a.output_vlan == b.output_vlan);
}

bool selects(const MirrorConfig& config, const std::vector<PortNo>& ports, PortNo port) {
  return config.select_all || std::find(ports.begin(), ports.end(), port) != ports.end();
}

}  // namespace

Result<> MirrorTable::set(std::vector<MirrorConfig> mirrors) {
  if (mirrors.size() > kMaxMirrors) {
    return fail("{} mirrors; a bridge can have {}", mirrors.size(), kMaxMirrors);
  }
  if (!mirrors.empty() && !enable_mirror_marks()) {
    return fail("no room in packet buffers for the marks of mirrors");
  }
  mirrors_ = std::move(mirrors);
  std::map<std::string, std::shared_ptr<MirrorCounts>> counts;
  for (const MirrorConfig& config : mirrors_) {
    const auto known = counts_.find(config.id);
    counts[config.id] =
        known != counts_.end() ? known->second : std::make_shared<MirrorCounts>(kMaxWorkers);
  }
  counts_ = std::move(counts);
  return {};
}

bool MirrorTable::is_output(PortNo port) const {
  return std::any_of(mirrors_.begin(), mirrors_.end(),
                     [&](const MirrorConfig& config) { return config.output_port == port; });
}

std::vector<PortNo> MirrorTable::carriers(const MirrorConfig& config,
                                          const PortTable& ports) const {
  std::vector<PortNo> found;
  if (config.output_port || !config.output_vlan) return found;
  for (const PortNo number : ports.numbers()) {
    const PortVlans* vlans = ports.vlans(number);
    if (!is_output(number) && (vlans == nullptr || vlans->carries(*config.output_vlan))) {
      found.push_back(number);
    }
  }
  return found;
}

std::vector<std::shared_ptr<const void>> MirrorTable::place(PortTable& ports) {
  if (mirrors_.empty() && !placed_) return {};
  placed_ = !mirrors_.empty();
  std::vector<std::shared_ptr<const Mirror>> made;
  std::set<PortNo> all_carriers;
  for (size_t i = 0; i < mirrors_.size(); ++i) {
    const MirrorConfig& config = mirrors_[i];
    auto mirror = std::make_shared<Mirror>();
    mirror->bit = uint32_t{1} << i;
    for (size_t j = 0; j < mirrors_.size(); ++j) {
      if (same_output(config, mirrors_[j])) mirror->same |= uint32_t{1} << j;
    }
    mirror->vlans = config.select_vlans;
    if (config.output_port) mirror->output = ports.handle(*config.output_port);
    mirror->output_vlan = config.output_vlan.value_or(0);
    for (const PortNo number : carriers(config, ports)) {
      mirror->carriers.push_back(ports.handle(number));
      all_carriers.insert(number);
    }
    mirror->max_length = config.max_length.value_or(UINT32_MAX);
    mirror->counts = counts_.at(config.id);
    made.push_back(std::move(mirror));
  }
  std::vector<std::shared_ptr<const void>> old;
  for (const PortNo number : ports.numbers()) {
    PortTable::MirrorRole role;
    if (!mirrors_.empty()) {
      auto mirrors = std::make_shared<PortMirrors>();
      role.is_output = is_output(number);
      role.gets_copies = all_carriers.contains(number);
      for (size_t i = 0; i < mirrors_.size() && !role.is_output; ++i) {
        const MirrorConfig& config = mirrors_[i];
        if (selects(config, config.select_received, number)) mirrors->received.push_back(made[i]);
        if (selects(config, config.select_sent, number)) mirrors->sent.push_back(made[i]);
      }
      role.mirrors = std::move(mirrors);
    }
    old.push_back(ports.set_mirrors(number, std::move(role)));
  }
  return old;
}

std::map<std::string, MirrorStats> MirrorTable::stats() const {
  std::map<std::string, MirrorStats> all;
  for (const MirrorConfig& config : mirrors_) {
    const std::shared_ptr<MirrorCounts>& counts = counts_.at(config.id);
    MirrorStats& stats = all[config.id];
    stats.name = config.name;
    for (unsigned worker = 0; worker < kMaxWorkers; ++worker) {
      stats.packets += read((*counts)[worker].packets);
      stats.bytes += read((*counts)[worker].bytes);
    }
  }
  return all;
}

}  // namespace headrace::pipeline
