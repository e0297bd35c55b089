// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/database.h"

#include <utility>

namespace headrace::ovsdb {

Json Database::monitor_requests() {
  const auto columns = [](std::initializer_list<const char*> names) {
    return Json{{"columns", std::vector<std::string>(names.begin(), names.end())}};
  };
  // `ofport` is read only initially: the number that a port had before a restart.
  Json ofport = columns({"ofport"});
  ofport["select"] = Json{{"modify", false}};
  Json interface = Json::array();
  interface.push_back(
      columns({"name", "type", "options", "ofport_request", "mtu_request", "mac", "other_config",
               "ingress_policing_rate", "ingress_policing_kpkts_rate", "bfd", "cfm_mpid", "lldp"}));
  interface.push_back(std::move(ofport));
  return {
      {"Open_vSwitch", columns({"bridges", "next_cfg", "other_config", "ssl"})},
      {"Bridge",
       columns({"name", "ports", "controller", "fail_mode", "protocols", "other_config",
                "datapath_type", "stp_enable", "rstp_enable", "mcast_snooping_enable", "sflow",
                "netflow", "ipfix", "auto_attach", "flood_vlans", "flow_tables", "mirrors"})},
      {"Port", columns({"name", "interfaces", "qos", "tag", "trunks", "vlan_mode", "cvlans",
                        "protected", "mac", "lacp", "other_config"})},
      {"Mirror", columns({"name", "select_all", "select_src_port", "select_dst_port", "select_vlan",
                          "output_port", "output_vlan", "snaplen"})},
      {"QoS", columns({"type", "queues", "other_config"})},
      {"Queue", columns({"other_config", "dscp"})},
      {"Interface", std::move(interface)},
      {"SSL", columns({"private_key", "certificate", "ca_cert", "bootstrap_ca_cert"})},
      {"Controller",
       columns({"target", "max_backoff", "inactivity_probe", "controller_rate_limit",
                "controller_burst_limit", "controller_queue_size", "connection_mode", "local_ip",
                "local_netmask", "local_gateway", "enable_async_messages", "other_config"})},
  };
}

Result<> Database::apply(const Json& table_updates) {
  if (!table_updates.is_object()) {
    return fail("OVSDB update: not an object");
  }
  for (const auto& [table, rows] : table_updates.items()) {
    if (!rows.is_object()) {
      return fail("OVSDB update: table {} is not an object", table);
    }
    for (const auto& [uuid, change] : rows.items()) {
      if (!is_uuid(uuid) || !change.is_object()) {
        return fail("OVSDB update: table {} has a malformed row {}", table, uuid);
      }
      if (const auto fresh = change.find("new"); fresh != change.end() && !fresh->is_object()) {
        return fail("OVSDB update: table {} row {} is not an object", table, uuid);
      }
    }
  }
  for (const auto& [table, rows] : table_updates.items()) {
    for (const auto& [uuid, change] : rows.items()) {
      if (!changes_.all) {
        changes_.rows.push_back(uuid);
      }
      if (const auto fresh = change.find("new"); fresh != change.end()) {
        Json& row = tables_[table][uuid];
        if (!row.is_object()) {
          row = Json::object();
        }
        row.update(*fresh);
      } else {
        tables_[table].erase(uuid);
      }
    }
  }
  return {};
}

void Database::clear() {
  tables_.clear();
  changes_ = {};
}

Database::Changes Database::take_changes() {
  return std::exchange(changes_, {.all = false, .rows = {}});
}

const Database::Rows& Database::table(std::string_view name) const {
  static const Rows kNone;
  const auto it = tables_.find(name);
  return it == tables_.end() ? kNone : it->second;
}

}  // namespace headrace::ovsdb
