// SPDX-License-Identifier: Apache-2.0
#include "pipeline/testing/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <tuple>

namespace headrace::pipeline::test {
namespace {

std::string_view text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// What differs between two bags of frames.
std::string differ(const std::string& where, std::vector<Bytes> compiled,
                   std::vector<Bytes> reference) {
  const auto before = [](const Bytes& a, const Bytes& b) { return text(a) < text(b); };
  std::sort(compiled.begin(), compiled.end(), before);
  std::sort(reference.begin(), reference.end(), before);
  if (compiled == reference) return "";
  for (size_t i = 0; i < std::max(compiled.size(), reference.size()); ++i) {
    if (i < compiled.size() && i < reference.size() && compiled[i] == reference[i]) continue;
    return fmt::format("{}: {} frames, reference {}; first that differs:\n {:02x}\n {:02x}", where,
                       compiled.size(), reference.size(),
                       fmt::join(i < compiled.size() ? compiled[i] : Bytes{}, ""),
                       fmt::join(i < reference.size() ? reference[i] : Bytes{}, ""));
  }
  return "";
}

std::string differ_in_counts(TestSwitch& sw, Reference& reference) {
  const std::vector<TableStats> tables = sw.lsi.table_stats();
  for (auto& entry : reference.tables) {
    const uint8_t id = entry.first;
    const Reference::Table& table = entry.second;
    if (tables[id].lookups != table.lookups || tables[id].matched != table.matched) {
      return fmt::format("table {}: {} lookups {} matched, reference {} {}", id, tables[id].lookups,
                         tables[id].matched, table.lookups, table.matched);
    }
    size_t flows = 0;
    std::string difference;
    FlowFilter filter;
    filter.table_id = id;
    (void)sw.lsi.for_each_flow(filter, [&](const FlowStats& flow) {
      ++flows;
      for (const Reference::Flow& other : table.flows) {
        if (other.mod.priority != flow.priority || !other.mod.match.same_as(flow.match)) continue;
        if (other.counts == Reference::Counts{flow.packets, flow.bytes}) return;
        difference = fmt::format("table {} priority {}: {} packets {} bytes, reference {} {}", id,
                                 flow.priority, flow.packets, flow.bytes, other.counts.packets,
                                 other.counts.bytes);
        return;
      }
      difference =
          fmt::format("table {} priority {}: a flow the reference has not", id, flow.priority);
    });
    if (!difference.empty()) return difference;
    if (flows != table.flows.size()) {
      return fmt::format("table {}: {} flows, reference {}", id, flows, table.flows.size());
    }
  }
  for (const GroupStats& stats : sw.lsi.group_stats()) {
    const Reference::Group& group = reference.groups.at(stats.group_id);
    bool same = group.counts == Reference::Counts{stats.packets, stats.bytes};
    for (size_t i = 0; i < group.buckets.size(); ++i) {
      same = same && group.buckets[i] ==
                         Reference::Counts{stats.buckets[i].packets, stats.buckets[i].bytes};
    }
    if (!same) return fmt::format("group {}: counts differ", stats.group_id);
  }
  return "";
}

std::string differ_in_punts(TestSwitch& sw, Reference& reference) {
  std::vector<Reference::Punt> compiled;
  for (const auto& [info, bytes] : sw.punts.punted) {
    compiled.push_back({info.table_id, info.reason, info.cookie, info.metadata, bytes});
  }
  const auto before = [](const Reference::Punt& a, const Reference::Punt& b) {
    return std::tuple(a.table_id, a.reason, a.cookie, a.metadata, text(a.bytes)) <
           std::tuple(b.table_id, b.reason, b.cookie, b.metadata, text(b.bytes));
  };
  std::sort(compiled.begin(), compiled.end(), before);
  std::sort(reference.punts.begin(), reference.punts.end(), before);
  if (compiled == reference.punts) return "";
  return fmt::format("{} packets punted, reference {}", compiled.size(), reference.punts.size());
}

}  // namespace

std::string compare_once(const Choose& choose, size_t n_frames) {
  TestSwitch sw(kRandomPorts);
  sw.punts.room = 100'000;
  Reference reference(kRandomPorts);
  const RandomPipeline pipeline = make_pipeline(choose);
  for (const GroupMod& group : pipeline.groups) {
    if (!sw.lsi.group_mod(group)) return "group refused";
    reference.group_mod(group);
  }
  // Half of the flows first; the rest comes between bursts.
  size_t installed = 0;
  const auto install = [&](size_t until) {
    for (; installed < std::min(until, pipeline.flows.size()); ++installed) {
      if (!sw.lsi.flow_mod(pipeline.flows[installed])) return false;
      reference.flow_mod(pipeline.flows[installed]);
    }
    return true;
  };
  if (!install(pipeline.flows.size() / 2)) return "flow refused";

  for (size_t frames = 0; frames < n_frames;) {
    const auto in_port = static_cast<PortNo>(1 + choose(kRandomPorts));
    std::vector<Bytes> burst;
    for (size_t left = 1 + choose(kBurst); left > 0; --left) {
      burst.push_back(make_random_frame(choose));
    }
    frames += burst.size();
    sw.send(in_port, burst);
    for (const Bytes& frame : burst) reference.process(in_port, frame);

    if (!install(installed + choose(20))) return "flow refused";
    if (installed == 0) continue;
    FlowMod change = pipeline.flows[choose(installed)];
    change.command =
        choose(2) == 0 ? FlowMod::Command::remove_strict : FlowMod::Command::modify_strict;
    if (change.command == FlowMod::Command::modify_strict) {
      change.instructions = make_instructions(choose, change.table_id, pipeline.groups.size());
    }
    if (!sw.lsi.flow_mod(change)) return "change refused";
    reference.flow_mod(change);
  }

  for (PortNo port = 1; port <= kRandomPorts; ++port) {
    const std::vector<Bytes> sent = sw.take(port);
    if (sw.lsi.port_stats(port)->at(0).tx_packets != sent.size()) return "port count";
    std::string difference = differ(fmt::format("port {}", port), sent, reference.sent[port]);
    if (!difference.empty()) return difference;
  }
  if (std::string difference = differ_in_punts(sw, reference); !difference.empty()) {
    return difference;
  }
  std::string difference = differ_in_counts(sw, reference);
  if (!difference.empty()) return difference;
  if (rte_mempool_in_use_count(mbuf_pool()) != 0) return "mbufs leaked";
  return "";
}

}  // namespace headrace::pipeline::test
