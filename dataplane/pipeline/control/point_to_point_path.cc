// SPDX-License-Identifier: Apache-2.0
#include "pipeline/control/point_to_point_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "pipeline/control/flow_tables.h"
#include "pipeline/control/group_table.h"
#include "pipeline/control/lsi.h"
#include "pipeline/operations/pseudo_ports/registry.h"
#include "pipeline/terms/limits.h"

namespace headrace::pipeline {
namespace {

/// A port's bit of the word in which in_port is.
constexpr size_t kPortWord = offsetof(match::FlowKey, in_port) / 8;

/// The port whose packets alone the match can fit; nothing: any port's.
std::optional<PortNo> port_of(const match::Match& match) {
  if (match.mask.in_port == 0) return std::nullopt;
  return __builtin_bswap32(match.value.in_port);
}

/// True if the match asks for nothing but, maybe, the port.
bool takes_all_of_port(const match::Match& match) {
  return (match.words & ~(1u << kPortWord)) == 0 && match.mask.in_phy_port == 0;
}

bool higher(const Flow* a, const Flow* b) {
  return a->priority > b->priority;
}

/// In words, why a packet does not go on as it came; empty for an output.
std::string refusal_of(const Action& action) {
  if (action.is<OutputAction>()) return {};
  if (const auto* group = action.as<GroupAction>()) {
    return fmt::format("group {}", group->group_id);
  }
  if (const auto* queue = action.as<SetQueueAction>()) {
    return fmt::format("set_queue {}", queue->queue_id);
  }
  return "it changes packets";
}

/// In words, why an output is not to one port of its own; empty if it is.
std::string refusal_of(PortNo port, PortNo in_port) {
  if (port == kPortController) return "packets go to the controller";
  if (port == kPortInPort) return "packets go back to the port that they came by";
  if (const PseudoPort* pseudo = find_pseudo_port(port)) return std::string(pseudo->name);
  return port == in_port ? "packets to the port that they came by are dropped" : "";
}

/// In words, why mirrors keep packets on the switch; empty if they do not.
std::string refusal_of_mirrors(const PortEnd& end, bool selected) {
  if (end.is_mirror_output) return fmt::format("port {} is the output of a mirror", end.name);
  if (selected) return fmt::format("port {} is mirrored", end.name);
  return {};
}

std::string rule_in(const Flow& flow) {
  return fmt::format("table {}, priority {}", flow.table_id, flow.priority);
}

/// What a path does so far: the outputs that were made, and the action set.
struct Doing {
  std::vector<PortNo> outputs;
  std::optional<PortNo> set_output;

  /// Takes a list of actions; in words, what of it makes the path no link.
  std::string apply(const ActionList& actions) {
    for (const Action& action : actions) {
      if (std::string refusal = refusal_of(action); !refusal.empty()) return refusal;
      outputs.push_back(action.arguments<OutputAction>().port);
    }
    return {};
  }
  std::string write(const ActionList& actions) {
    for (const Action& action : actions) {
      if (std::string refusal = refusal_of(action); !refusal.empty()) return refusal;
      set_output = action.arguments<OutputAction>().port;
    }
    return {};
  }
};

/// Runs a rule's instructions; in words, what makes the path no link. `next` is the table to go on
/// in, if any.
std::string run(const Flow& flow, Doing& doing, std::optional<uint8_t>& next) {
  if (flow.idle_timeout != 0) return "its idle timeout needs the switch to see packets";
  next.reset();
  // As section 5.9 orders them: meter, apply, clear, write, goto.
  std::string refusal;
  const auto each = [&](auto&& act) {
    for (const Instruction& instruction : flow.instructions) {
      if (refusal.empty()) act(instruction);
    }
  };
  each([&](const Instruction& i) {
    if (const auto* meter = std::get_if<MeterInstruction>(&i)) {
      refusal = fmt::format("meter {}", meter->meter_id);
    }
  });
  each([&](const Instruction& i) {
    if (const auto* apply = std::get_if<ApplyActions>(&i)) refusal = doing.apply(apply->actions);
  });
  each([&](const Instruction& i) {
    if (std::holds_alternative<ClearActions>(i)) doing.set_output.reset();
  });
  each([&](const Instruction& i) {
    if (const auto* write = std::get_if<WriteActions>(&i)) refusal = doing.write(write->actions);
  });
  each([&](const Instruction& i) {
    if (const auto* go = std::get_if<GotoTable>(&i)) next = go->table_id;
  });
  return refusal;
}

}  // namespace

// --- one LSI -----------------------------------------------------------------------------------

LsiPaths::LsiPaths(const FlowTables& flows, const GroupTable& groups) : groups_(groups) {
  if (flows.size() > kMaxPathRules) {
    too_many_ = true;
    return;
  }
  flows.for_each_head([this](const Flow& flow) {
    TableRules& table = tables_[flow.table_id];
    const std::optional<PortNo> port = port_of(flow.match);
    (port ? table.of_port[*port] : table.of_any).push_back(&flow);
  });
  for (auto& [id, table] : tables_) {
    std::sort(table.of_any.begin(), table.of_any.end(), higher);
    for (auto& [port, rules] : table.of_port) std::sort(rules.begin(), rules.end(), higher);
  }
}

LsiPaths::Met LsiPaths::met(uint8_t table_id, PortNo in_port) const {
  Met met;
  const auto table = tables_.find(table_id);
  if (table == tables_.end()) return met;
  const auto own = table->second.of_port.find(in_port);
  const auto each = [&](auto&& act) {
    if (own != table->second.of_port.end()) std::ranges::for_each(own->second, act);
    std::ranges::for_each(table->second.of_any, act);
  };
  each([&](const Flow* flow) {
    const bool first = met.total == nullptr || flow->priority > met.total->priority;
    if (takes_all_of_port(flow->match) && first) met.total = flow;
  });
  each([&](const Flow* flow) {
    // Of two rules of one priority either may be taken (section 6.4).
    const bool low = met.total != nullptr && flow->priority < met.total->priority;
    if (flow != met.total && !low) met.partial.push_back(flow);
  });
  return met;
}

PortPath LsiPaths::from(PortNo in_port) const {
  PortPath path;
  const auto refuse = [&path](std::string reason) {
    path.rules.clear();
    path.reason = std::move(reason);
    return path;
  };
  if (too_many_) return refuse(fmt::format("the LSI has more than {} rules", kMaxPathRules));
  Doing doing;
  std::optional<uint8_t> next = 0;
  while (next) {
    const uint8_t table_id = *next;
    const Met met = this->met(table_id, in_port);
    if (met.total == nullptr) {
      return refuse(met.partial.empty()
                        ? fmt::format("table {}: no rule takes its packets", table_id)
                        : fmt::format("table {}: no rule takes all of its packets", table_id));
    }
    if (!met.partial.empty()) {
      return refuse(fmt::format("{}: a rule narrower than the port", rule_in(*met.partial[0])));
    }
    if (const std::string refusal = run(*met.total, doing, next); !refusal.empty()) {
      return refuse(fmt::format("{}: {}", rule_in(*met.total), refusal));
    }
    path.rules.push_back(met.total->self);
  }
  if (doing.set_output) doing.outputs.push_back(*doing.set_output);
  if (doing.outputs.empty()) return refuse("its packets are dropped");
  for (const PortNo out : doing.outputs) {
    if (std::string refusal = refusal_of(out, in_port); !refusal.empty()) return refuse(refusal);
  }
  if (doing.outputs.size() > 1) return refuse("several outputs");
  path.out = doing.outputs[0];
  return path;
}

void LsiPaths::collect(const ActionList& actions, PortNo in_port, Outputs& outputs,
                       unsigned depth) const {
  for (const Action& action : actions) {
    if (const auto* output = action.as<OutputAction>()) {
      const PortNo port = output->port == kPortInPort ? in_port : output->port;
      const PseudoPort* pseudo = find_pseudo_port(port);
      if (pseudo != nullptr && pseudo->reaches_all) outputs.everywhere = true;
      outputs.ports.insert(port);
    }
    const auto* group = action.as<GroupAction>();
    const GroupMod* config = group == nullptr ? nullptr : groups_.config(group->group_id);
    if (config == nullptr || depth == kMaxGroupDepth) continue;
    for (const Bucket& bucket : config->buckets) {
      collect(bucket.actions, in_port, outputs, depth + 1);
    }
  }
}

const LsiPaths::Outputs& LsiPaths::outputs_of(PortNo in_port) const {
  const auto known = outputs_.find(in_port);
  if (known != outputs_.end()) return known->second;
  Outputs& outputs = outputs_[in_port];
  std::set<uint8_t> reached{0};
  // Packets go on to higher tables only, and a set is walked upwards, so each is visited once.
  for (const uint8_t table_id : reached) {
    Met met = this->met(table_id, in_port);
    if (met.total != nullptr) met.partial.push_back(met.total);
    for (const Flow* flow : met.partial) {
      for (const Instruction& instruction : flow->instructions) {
        if (const auto* go = std::get_if<GotoTable>(&instruction)) reached.insert(go->table_id);
        if (const auto* apply = std::get_if<ApplyActions>(&instruction)) {
          collect(apply->actions, in_port, outputs, 0);
        }
        if (const auto* write = std::get_if<WriteActions>(&instruction)) {
          collect(write->actions, in_port, outputs, 0);
        }
      }
    }
  }
  return outputs;
}

bool LsiPaths::may_reach(PortNo in_port, PortNo out) const {
  if (too_many_) return true;
  const Outputs& outputs = outputs_of(in_port);
  return outputs.ports.contains(out) || (outputs.everywhere && in_port != out);
}

// --- LSI after LSI -----------------------------------------------------------------------------

const LsiPaths& PointToPointPaths::paths_of(const Lsi& lsi) {
  std::unique_ptr<LsiPaths>& paths = known_[&lsi];
  if (paths == nullptr) paths = lsi.paths();
  return *paths;
}

PointToPointPath PointToPointPaths::find(Lsi& lsi, PortNo from) {
  PointToPointPath path;
  follow(lsi, from, path);
  if (path.found()) check_sources(path);
  return path;
}

void PointToPointPaths::follow(Lsi& first, PortNo from, PointToPointPath& path) {
  Lsi* lsi = &first;
  PortNo in = from;
  for (unsigned crossed = 0; crossed <= kMaxPatchDepth; ++crossed) {
    const std::string where = lsi == &first ? "" : lsi->config().name + ": ";
    const PortEnd entrance = lsi->port_end(in);
    if (!entrance.receives) {
      path.reason = fmt::format("{}port {} takes nothing in", where, entrance.name);
      return;
    }
    if (const std::string mirrors = refusal_of_mirrors(entrance, entrance.mirrored_received);
        !mirrors.empty()) {
      path.reason = where + mirrors;
      return;
    }
    PortPath leg = paths_of(*lsi).from(in);
    if (!leg.reason.empty()) {
      path.reason = where + leg.reason;
      return;
    }
    path.legs.push_back({lsi, in, leg.out, std::move(leg.rules)});
    const PortEnd exit = lsi->port_end(leg.out);
    if (!exit.sends) {
      path.reason = exit.name.empty() ? fmt::format("{}there is no port {}", where, leg.out)
                                      : fmt::format("{}port {} sends nothing on", where, exit.name);
      return;
    }
    if (const std::string mirrors = refusal_of_mirrors(exit, exit.mirrored_sent);
        !mirrors.empty()) {
      path.reason = where + mirrors;
      return;
    }
    if (exit.changes) {
      path.reason = fmt::format("{}port {} changes packets", where, exit.name);
      return;
    }
    if (exit.device) return;
    if (exit.peer == nullptr) {
      path.reason = fmt::format("{}patch {} leads nowhere", where, exit.name);
      return;
    }
    lsi = exit.peer;
    in = exit.peer_port;
  }
  path.reason = "patches in a circle";
}

void PointToPointPaths::check_sources(PointToPointPath& path) {
  for (const PathLeg& leg : path.legs) {
    const LsiPaths& paths = paths_of(*leg.lsi);
    if (const PortEnd exit = leg.lsi->port_end(leg.out); exit.gets_copies) {
      path.reason = fmt::format("mirrors' copies go to {} too", exit.name);
      return;
    }
    for (const PortDesc& port : leg.lsi->port_descs()) {
      if (port.number == leg.in || !paths.may_reach(port.number, leg.out)) continue;
      path.reason = fmt::format("packets of port {} may go to {} too", port.name,
                                leg.lsi->port_end(leg.out).name);
      return;
    }
  }
}

}  // namespace headrace::pipeline
