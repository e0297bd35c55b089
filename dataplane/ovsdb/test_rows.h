// SPDX-License-Identifier: Apache-2.0
// Rows of bridges with a port of their own and three others, as a server notifies of them.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "ovsdb/database.h"
#include "ovsdb/values.h"

namespace headrace::ovsdb {

inline constexpr int64_t kPorts = 3;

inline Uuid uuid_of(int64_t kind, int64_t bridge, int64_t port = 0) {
  return fmt::format("{:08x}-0000-4000-8000-{:04x}{:08x}", kind, port, bridge);
}

/// A column that nobody has set, as the server sends it.
inline Json unset(const std::string& column) {
  for (const char* map : {"options", "other_config", "bfd", "flow_tables", "lldp"}) {
    if (column == map) return to_map(StringMap{});
  }
  for (const char* number : {"ingress_policing_rate", "ingress_policing_kpkts_rate", "next_cfg"}) {
    if (column == number) return 0;
  }
  for (const char* flag : {"stp_enable", "rstp_enable", "mcast_snooping_enable", "protected"}) {
    if (column == flag) return false;
  }
  return empty_set();
}

/// A row of a notification, with all columns that are monitored.
inline Json fresh(const char* table, Json columns) {
  static const Json kMonitored = Database::monitor_requests();
  const Json& requests = kMonitored.at(table);
  for (const Json& request : requests.is_array() ? requests : Json::array({requests})) {
    for (const auto& column : request.at("columns")) {
      if (!columns.contains(column)) columns[column.get<std::string>()] = unset(column);
    }
  }
  return Json{{"new", std::move(columns)}};
}

inline Json interface_row(int64_t bridge, int64_t port, int64_t mtu) {
  const auto name = port == 0 ? fmt::format("br{}", bridge) : fmt::format("br{}p{}", bridge, port);
  return fresh("Interface",
               {{"name", name},
                {"type", port == 0 ? "internal" : "dpdkvhostuserclient"},
                {"options", to_map(StringMap{{"vhost-server-path", "/run/vhost/" + name}})},
                {"mtu_request", mtu}});
}

/// The rows of one bridge with its own port and three others.
inline void add_bridge(Json& tables, int64_t bridge) {
  Json ports = Json::array();
  for (int64_t port = 0; port <= kPorts; ++port) {
    const Uuid uuid = uuid_of(2, bridge, port);
    ports.push_back(to_uuid(uuid));
    const Json interface = interface_row(bridge, port, 1500);
    tables["Port"][uuid] = fresh("Port", {{"name", interface.at("new").at("name")},
                                          {"interfaces", to_uuid(uuid_of(3, bridge, port))}});
    tables["Interface"][uuid_of(3, bridge, port)] = interface;
  }
  Json set = Json::array();
  set.push_back("set");
  set.push_back(std::move(ports));
  tables["Bridge"][uuid_of(1, bridge)] = fresh("Bridge", {{"name", fmt::format("br{}", bridge)},
                                                          {"fail_mode", "secure"},
                                                          {"datapath_type", "netdev"},
                                                          {"ports", std::move(set)}});
}

/// The Open_vSwitch row with bridges 0 to `bridges` - 1.
inline void add_root(Json& tables, int64_t bridges, int64_t next_cfg) {
  Json all = Json::array();
  for (int64_t bridge = 0; bridge < bridges; ++bridge) {
    all.push_back(to_uuid(uuid_of(1, bridge)));
  }
  Json set = Json::array();
  set.push_back("set");
  set.push_back(std::move(all));
  tables["Open_vSwitch"][uuid_of(0, 0)] =
      fresh("Open_vSwitch", {{"bridges", std::move(set)}, {"next_cfg", next_cfg}});
}

}  // namespace headrace::ovsdb
