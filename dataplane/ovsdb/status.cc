// SPDX-License-Identifier: Apache-2.0
// The reconciler's status: converts the state of the switch to the status columns of the database.
#include <fmt/format.h>

#include <algorithm>

#include "ovsdb/reconciler.h"

namespace headrace::ovsdb {
namespace {

const char* up_or_down(bool up) {
  return up ? "up" : "down";
}

std::optional<std::string> duplex_word(const std::optional<bool>& full) {
  if (!full) {
    return std::nullopt;
  }
  return *full ? "full" : "half";
}

/// The columns of an interface that doesn't exist: ofport -1 and the error.
Json failed_interface(const std::string& error) {
  Json columns{{"ofport", -1}, {"error", error}, {"status", to_map(StringMap{})}};
  for (const char* column : {"admin_state", "link_state", "link_speed", "duplex", "mtu",
                             "mac_in_use", "ifindex", "link_resets"}) {
    columns[column] = empty_set();
  }
  return columns;
}

}  // namespace

Notes Reconciler::notes_on(const Lsi& lsi, const Port& port) const {
  Notes notes = port.notes;
  if (port.requested && *port.requested != port.spec.number) {
    const auto holder = std::find_if(lsi.ports.begin(), lsi.ports.end(), [&](const auto& entry) {
      return entry.second.exists && entry.second.spec.number == *port.requested;
    });
    notes.push_back(
        port.spec.number == pipeline::kPortLocal
            ? fmt::format("ofport_request {} has no effect at the bridge's own port; clear it",
                          *port.requested)
            : fmt::format("ofport_request {} is the number of {}; request another one",
                          *port.requested,
                          holder == lsi.ports.end() ? "another port" : holder->first));
  }
  if (const auto wanted = port.spec.options.find("peer");
      port.spec.type == "patch" && port.peer.empty() && wanted != port.spec.options.end()) {
    const auto* peer = find_port(wanted->second);
    notes.push_back(fmt::format(
        "options:peer: {}; make {} a patch port with options:peer={}",
        peer == nullptr ? "no port " + wanted->second : wanted->second + " does not lead back here",
        wanted->second, port.spec.name));
  }
  return notes;
}

Notes Reconciler::notes_on_switch() const {
  Notes notes = notes_;
  if (workers_error_) {
    notes.push_back("other_config:pmd-cpu-mask: " + *workers_error_);
  }
  return notes;
}

Json Reconciler::interface_columns(const Lsi& lsi, const Port& port, const PortState& state) const {
  const int64_t ofport =
      port.spec.number == pipeline::kPortLocal ? kOfportLocal : int64_t{port.spec.number};
  Notes notes = notes_on(lsi, port);
  notes.insert(notes.end(), state.notes.begin(), state.notes.end());
  if (port.error) {
    notes.insert(notes.begin(), *port.error);
  }
  return Json{
      {"ofport", ofport},
      {"error", notes.empty() ? empty_set() : Json(joined(notes))},
      {"admin_state", up_or_down(state.admin_up)},
      {"link_state", up_or_down(state.link_up)},
      {"link_speed", to_optional(state.link_speed_bps)},
      {"duplex", to_optional(duplex_word(state.full_duplex))},
      {"mtu", to_optional(state.mtu)},
      {"mac_in_use", to_optional(state.mac)},
      {"ifindex", to_optional(state.ifindex)},
      {"link_resets", state.link_resets},
      {"status", to_map(state.status)},
  };
}

bool Reconciler::depends_on_others(const Port& port) {
  return (port.spec.type == "patch" && port.peer.empty()) ||
         (port.requested && *port.requested != port.spec.number);
}

void Reconciler::add_bridge(const Lsi& lsi, StatusRows& rows) const {
  StringMap status;
  Notes notes = lsi.row->notes;
  notes.insert(notes.end(), lsi.mirror_notes.begin(), lsi.mirror_notes.end());
  if (lsi.error) {
    notes.insert(notes.begin(), *lsi.error);
  }
  if (!notes.empty()) {
    status["error"] = joined(notes);
  }
  // The Open_vSwitch row has no error column, so its notes go to the bridges.
  if (!told_notes_.empty()) {
    status["switch_error"] = joined(told_notes_);
  }
  rows[{"Bridge", lsi.row->uuid}] = Json{
      {"datapath_id",
       lsi.exists ? Json(fmt::format("{:016x}", lsi.config.datapath_id)) : empty_set()},
      {"datapath_version", control_.info().version},
      {"status", to_map(status)},
  };
  for (const auto& row : lsi.row->ports) {
    rows[{"Port", row.uuid}] = Json{
        {"status",
         to_map(row.notes.empty() ? StringMap{} : StringMap{{"error", joined(row.notes)}})},
    };
  }
}

void Reconciler::add_port(const std::string& name, const Lsi& lsi, Port& port,
                          StatusRows& rows) const {
  const RowKey key{"Interface", port.uuid};
  if (!port.exists) {
    if (!port.is_told) {
      rows[key] = failed_interface(port.error.value_or("not created"));
    }
  } else {
    auto state = control_.port_state(name, port.spec.name);
    if (!port.is_told || state != port.told || depends_on_others(port)) {
      rows[key] = interface_columns(lsi, port, state);
      port.told = std::move(state);
    }
  }
  port.is_told = true;
}

void Reconciler::add_controllers(const std::string& name, Lsi& lsi, StatusRows& rows) const {
  if (lsi.row->controllers.empty()) {
    return;
  }
  auto states =
      lsi.exists ? control_.controller_states(name) : std::map<std::string, ControllerState>{};
  if (lsi.is_told && states == lsi.told_controllers) {
    return;
  }
  for (const auto& row : lsi.row->controllers) {
    const auto it = states.find(row.spec.target);
    auto state = it == states.end() ? ControllerState{} : it->second;
    if (!row.notes.empty()) {
      state.status["error"] = joined(row.notes);
    }
    rows[{"Controller", row.uuid}] = Json{
        {"is_connected", state.is_connected},
        {"role", to_optional(state.role)},
        {"status", to_map(state.status)},
    };
  }
  lsi.told_controllers = std::move(states);
}

StatusRows Reconciler::changed_status() {
  StatusRows rows;
  auto notes = notes_on_switch();
  const bool has_other_notes = notes != told_notes_;
  told_notes_ = std::move(notes);
  for (auto& [name, lsi] : lsis_) {
    if (!lsi.is_told || has_other_notes) {
      add_bridge(lsi, rows);
    }
    for (auto& [port_name, port] : lsi.ports) {
      add_port(name, lsi, port, rows);
    }
    add_controllers(name, lsi, rows);
    lsi.is_told = true;
  }
  if (root_) {
    const auto info = control_.info();
    rows[{"Open_vSwitch", *root_}] = Json{
        {"cur_cfg", applied_cfg_},
        {"ovs_version", info.version},
        {"datapath_types", to_set({"netdev", "system"})},
        {"iface_types", to_set(info.port_types)},
        {"dpdk_initialized", info.dpdk_initialized},
        {"dpdk_version", info.dpdk_version},
    };
  }
  return rows;
}

StatusRows Reconciler::changed_statistics() {
  StatusRows rows;
  for (auto& [name, lsi] : lsis_) {
    for (auto& [port_name, port] : lsi.ports) {
      if (!port.exists) {
        continue;
      }
      auto counts = control_.port_statistics(name, port_name);
      if (counts != port.told_statistics) {
        rows[{"Interface", port.uuid}] = Json{{"statistics", to_map(counts)}};
        port.told_statistics = std::move(counts);
      }
    }
    if (lsi.mirrors.empty()) {
      continue;
    }
    for (const auto& [uuid, stats] : control_.mirror_statistics(name)) {
      std::map<std::string, int64_t> counts{{"tx_packets", static_cast<int64_t>(stats.packets)},
                                            {"tx_bytes", static_cast<int64_t>(stats.bytes)}};
      auto& told = lsi.told_mirrors[uuid];
      if (counts != told) {
        rows[{"Mirror", uuid}] = Json{{"statistics", to_map(counts)}};
        told = std::move(counts);
      }
    }
  }
  return rows;
}

void Reconciler::forget_told() {
  for (auto& [name, lsi] : lsis_) {
    lsi.is_told = false;
    lsi.told_mirrors.clear();
    for (auto& [port_name, port] : lsi.ports) {
      port.is_told = false;
      port.told_statistics.clear();
    }
  }
}

}  // namespace headrace::ovsdb
