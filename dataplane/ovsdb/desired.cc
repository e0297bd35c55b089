// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/desired.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "ovsdb/desired_mirror.h"
#include "ovsdb/desired_port.h"
#include "ovsdb/parse.h"

namespace headrace::ovsdb {
namespace {

/// A stable datapath id for a bridge without a configured one: 48 bits of its row's UUID, as a
/// locally administered unicast address, since OVS's datapath ids are MAC addresses too.
uint64_t default_datapath_id(const Uuid& uuid) {
  const uint64_t bits = parse_unsigned(uuid.substr(24), 16).value_or(1);
  return (bits & ~(uint64_t{1} << 40)) | uint64_t{2} << 40;
}

Result<ControllerRow> read_controller(const Uuid& uuid, const Json& columns) {
  ControllerRow row{.uuid = uuid, .spec = {}, .notes = {}};
  RowReader reader("Controller", uuid, columns);
  row.spec.target = reader.string("target");
  const auto backoff = reader.optional_integer("max_backoff");
  const auto probe = reader.optional_integer("inactivity_probe");
  const auto rate = reader.optional_integer("controller_rate_limit");
  const auto burst = reader.optional_integer("controller_burst_limit");
  if (reader.optional_string("connection_mode") == "in-band") {
    row.notes.emplace_back("connection_mode in-band is not supported; clear the column");
  }
  for (const char* column : {"local_ip", "local_netmask", "local_gateway"}) {
    if (reader.optional_string(column)) {
      row.notes.push_back(fmt::format("{} is not supported; clear the column", column));
    }
  }
  if (reader.optional_integer("controller_queue_size")) {
    row.notes.emplace_back("controller_queue_size is not supported; clear the column");
  }
  for (const auto& asynchronous : reader.booleans("enable_async_messages")) {
    if (!asynchronous) {
      row.notes.emplace_back(
          "enable_async_messages false is not supported; the controller can ask for it itself");
    }
  }
  note_other_config(reader.map("other_config"), {}, "", row.notes);
  if (auto status = reader.status(); !status) {
    return tl::unexpected(status.error());
  }
  if (backoff) {
    row.spec.max_backoff_ms = static_cast<uint32_t>(std::clamp<int64_t>(*backoff, 1000, INT32_MAX));
  }
  const auto limit = [](const std::optional<int64_t>& value) {
    return static_cast<uint32_t>(std::clamp<int64_t>(value.value_or(0), 0, INT32_MAX));
  };
  row.spec.packet_in_rate = limit(rate);
  row.spec.packet_in_burst = limit(burst);
  if (probe) {
    row.spec.inactivity_probe_ms = static_cast<uint32_t>(std::clamp<int64_t>(*probe, 0, INT32_MAX));
  }
  return row;
}

/// Adds notes for settings of a bridge that have no effect.
void note_unsupported(RowReader& reader, Notes& notes) {
  const auto type = reader.string("datapath_type");
  if (!type.empty() && type != "netdev" && type != "system") {
    notes.push_back(fmt::format("datapath_type '{}' is not known; clear the column", type));
  }
  for (const char* column : {"stp_enable", "rstp_enable", "mcast_snooping_enable"}) {
    if (reader.boolean(column)) {
      notes.push_back(fmt::format("{} is not supported; set it to false", column));
    }
  }
  for (const char* column : {"sflow", "netflow", "ipfix", "auto_attach"}) {
    if (!reader.uuids(column).empty()) {
      notes.push_back(fmt::format("{} is not supported; clear the column", column));
    }
  }
  if (!reader.integers("flood_vlans").empty()) {
    notes.emplace_back("flood_vlans is not supported; clear the column");
  }
  if (!reader.numbered_uuids("flow_tables").empty()) {
    notes.emplace_back("flow_tables is not supported, tables hold what fits; clear the column");
  }
}

/// Reads the columns of a Bridge row, except those of the rows that it references, which are
/// returned by reference.
Result<> read_bridge_columns(RowReader& reader, BridgeRow& row, std::vector<Uuid>& ports,
                             std::vector<Uuid>& controllers, std::vector<Uuid>& mirrors) {
  auto& config = row.config;
  config.name = reader.string("name");
  config.other_config = reader.map("other_config");
  const auto fail_mode = reader.optional_string("fail_mode");
  const auto protocols = reader.strings("protocols");
  ports = reader.uuids("ports");
  controllers = reader.uuids("controller");
  mirrors = reader.uuids("mirrors");
  note_unsupported(reader, row.notes);
  if (auto status = reader.status(); !status) {
    return status;
  }
  note_other_config(
      config.other_config,
      {"datapath-id", "dp-desc", "disable-in-band", "forward-bpdu", "hwaddr", "mac-aging-time"}, "",
      row.notes);
  config.forward_bpdu = lookup(config.other_config, "forward-bpdu") == "true";
  if (const auto text = lookup(config.other_config, "mac-aging-time")) {
    const auto seconds = parse_unsigned(*text);
    if (seconds && *seconds >= 15 && *seconds <= 3600) {
      config.mac_age_s = static_cast<uint32_t>(*seconds);
    } else {
      row.notes.push_back(
          fmt::format("other_config:mac-aging-time '{}' is not 15 to 3600 seconds", *text));
    }
  }
  config.fail_mode = fail_mode == "secure" ? FailMode::secure : FailMode::standalone;
  if (!protocols.empty() &&
      std::find(protocols.begin(), protocols.end(), "OpenFlow13") == protocols.end()) {
    row.notes.push_back(
        fmt::format("protocols {}: only OpenFlow13 is supported, and remains enabled; add it or "
                    "clear the column",
                    fmt::join(protocols, ", ")));
  }
  config.description = lookup(config.other_config, "dp-desc").value_or("");
  config.datapath_id = default_datapath_id(row.uuid);
  if (const auto text = lookup(config.other_config, "datapath-id")) {
    if (const auto id = parse_datapath_id(*text)) {
      config.datapath_id = *id;
    } else {
      row.notes.push_back("other_config:" + id.error().message);
    }
  }
  return {};
}

Result<BridgeRow> read_bridge(const Database& database, const Uuid& uuid, const Json& columns) {
  BridgeRow row;
  row.uuid = uuid;
  row.sources.emplace_back("Bridge", uuid);
  RowReader reader("Bridge", uuid, columns);
  std::vector<Uuid> ports;
  std::vector<Uuid> controllers;
  std::vector<Uuid> mirrors;
  if (auto read = read_bridge_columns(reader, row, ports, controllers, mirrors); !read) {
    return tl::unexpected(read.error());
  }
  for (const auto& port : ports) {
    if (auto read = read_port(database, port, row); !read) {
      return tl::unexpected(read.error());
    }
  }
  // As in OVS, this is the MAC of the bridge's own interface; the interface's own column takes
  // precedence.
  for (InterfaceRow& interface : row.interfaces) {
    if (interface.spec.number == pipeline::kPortLocal && !interface.spec.mac) {
      interface.spec.mac = lookup(row.config.other_config, "hwaddr");
    }
  }
  if (auto read = read_mirrors(database, mirrors, row); !read) {
    return tl::unexpected(read.error());
  }
  std::sort(row.interfaces.begin(), row.interfaces.end(),
            [](const auto& a, const auto& b) { return a.spec.name < b.spec.name; });
  for (const auto& controller : controllers) {
    const auto& rows = database.table("Controller");
    const auto it = rows.find(controller);
    if (it == rows.end()) {
      return fail("Bridge {} refers to Controller {}, which is not there", row.config.name,
                  controller);
    }
    row.sources.emplace_back("Controller", controller);
    auto read = read_controller(controller, it->second);
    if (!read) {
      return tl::unexpected(read.error());
    }
    row.controllers.push_back(*std::move(read));
  }
  std::sort(row.controllers.begin(), row.controllers.end(),
            [](const auto& a, const auto& b) { return a.spec.target < b.spec.target; });
  return row;
}

/// A number of other_config within bounds; what is none is noted, and `otherwise` holds.
uint32_t read_bounded(const StringMap& config, const std::string& key, uint32_t most,
                      uint32_t otherwise, Notes& notes) {
  const auto text = lookup(config, key);
  if (!text) {
    return otherwise;
  }
  const auto number = parse_unsigned(*text);
  if (number && *number <= most) {
    return static_cast<uint32_t>(*number);
  }
  notes.push_back(fmt::format("other_config:{} '{}' is not 0 to {}", key, *text, most));
  return otherwise;
}

/// How receive queues are dealt to workers.
void read_queue_assignment(const StringMap& config, WorkerConfig& workers, Notes& notes) {
  if (const auto text = lookup(config, "pmd-rxq-assign")) {
    if (*text == "roundrobin" || *text == "cycles" || *text == "group") {
      workers.rxq_assign = *text;
    } else {
      notes.push_back(fmt::format(
          "other_config:pmd-rxq-assign '{}' is not roundrobin, cycles or group", *text));
    }
  }
  if (const auto text = lookup(config, "pmd-auto-lb")) {
    workers.auto_lb = *text == "true";
    if (*text != "true" && *text != "false") {
      notes.push_back(fmt::format("other_config:pmd-auto-lb '{}' is not true or false", *text));
    }
  }
  // As OVS, which takes 0 minutes for the default.
  const uint32_t minutes = read_bounded(config, "pmd-auto-lb-rebal-interval", 20000, 1, notes);
  workers.auto_lb_interval_minutes = std::max(minutes, 1u);
  workers.auto_lb_load_threshold =
      read_bounded(config, "pmd-auto-lb-load-threshold", 100, 95, notes);
  workers.auto_lb_improvement_threshold =
      read_bounded(config, "pmd-auto-lb-improvement-threshold", 100, 25, notes);
}

void read_root_config(const StringMap& other_config, Desired& desired) {
  // DPDK is always initialized; other DPDK settings of Open vSwitch are command-line options here.
  note_other_config(other_config,
                    {"pmd-cpu-mask", "pmd-maxsleep", "pmd-rxq-assign", "pmd-auto-lb",
                     "pmd-auto-lb-rebal-interval", "pmd-auto-lb-load-threshold",
                     "pmd-auto-lb-improvement-threshold", "stats-update-interval", "dpdk-init"},
                    "", desired.notes);
  read_queue_assignment(other_config, desired.workers, desired.notes);
  if (const auto text = lookup(other_config, "pmd-cpu-mask")) {
    if (auto cpus = parse_cpu_mask(*text)) {
      desired.workers.cpus = *std::move(cpus);
    } else {
      desired.notes.push_back("other_config:" + cpus.error().message);
    }
  }
  if (const auto text = lookup(other_config, "pmd-maxsleep")) {
    const auto micros = parse_unsigned(*text);
    if (micros && *micros <= 10000) {
      desired.workers.max_sleep_us = static_cast<uint32_t>(*micros);
    } else {
      desired.notes.push_back(
          fmt::format("other_config:pmd-maxsleep '{}' is not 0 to 10000 microseconds", *text));
    }
  }
  if (const auto text = lookup(other_config, "stats-update-interval")) {
    const auto millis = parse_unsigned(*text);
    if (millis && *millis <= INT32_MAX) {
      // As in OVS, the minimum is 5 s: statistics are transactions that are sent to every monitor.
      desired.stats_interval = std::chrono::milliseconds(std::max<uint64_t>(*millis, 5000));
    } else {
      desired.notes.push_back(
          fmt::format("other_config:stats-update-interval '{}' is not milliseconds", *text));
    }
  }
}

Result<TlsFiles> read_tls(const Database& database, const Uuid& uuid) {
  const auto& rows = database.table("SSL");
  const auto it = rows.find(uuid);
  if (it == rows.end()) {
    return fail("Open_vSwitch refers to SSL {}, which is not there", uuid);
  }
  RowReader reader("SSL", uuid, it->second);
  TlsFiles files{reader.string("private_key"), reader.string("certificate"),
                 reader.string("ca_cert"), reader.boolean("bootstrap_ca_cert")};
  if (auto status = reader.status(); !status) {
    return tl::unexpected(status.error());
  }
  return files;
}

}  // namespace

void DesiredReader::forget(const Uuid& bridge) {
  const auto it = bridges_.find(bridge);
  if (it == bridges_.end()) {
    return;
  }
  for (const auto& [table, uuid] : it->second->sources) {
    if (const auto readers = readers_.find(uuid); readers != readers_.end()) {
      std::erase(readers->second, bridge);
      if (readers->second.empty()) {
        readers_.erase(readers);
      }
    }
  }
  bridges_.erase(it);
}

void DesiredReader::forget_changed(const Database::Changes& changes) {
  if (changes.all) {
    bridges_.clear();
    readers_.clear();
    return;
  }
  for (const auto& row : changes.rows) {
    if (const auto readers = readers_.find(row); readers != readers_.end()) {
      for (const auto& bridge : std::vector<Uuid>(readers->second)) {
        forget(bridge);
      }
    }
  }
}

Result<DesiredReader::Bridge> DesiredReader::bridge(const Database& database, const Uuid& uuid) {
  if (const auto it = bridges_.find(uuid); it != bridges_.end()) {
    return it->second;
  }
  const auto& rows = database.table("Bridge");
  const auto it = rows.find(uuid);
  if (it == rows.end()) {
    return fail("Open_vSwitch refers to Bridge {}, which is not there", uuid);
  }
  auto read = read_bridge(database, uuid, it->second);
  if (!read) {
    return tl::unexpected(read.error());
  }
  const Bridge made = std::make_shared<const BridgeRow>(*std::move(read));
  for (const auto& [table, source] : made->sources) {
    readers_[source].push_back(uuid);
  }
  bridges_.emplace(uuid, made);
  return made;
}

Result<Desired> DesiredReader::read(Database& database) {
  forget_changed(database.take_changes());
  Desired desired;
  const auto& roots = database.table("Open_vSwitch");
  if (roots.empty()) {
    return desired;
  }
  const auto& [root_uuid, root] = *roots.begin();
  desired.root = root_uuid;
  RowReader reader("Open_vSwitch", root_uuid, root);
  desired.next_cfg = reader.integer("next_cfg");
  const auto other_config = reader.map("other_config");
  const auto bridges = reader.uuids("bridges");
  const auto ssl = reader.uuids("ssl");
  if (auto status = reader.status(); !status) {
    return tl::unexpected(status.error());
  }
  read_root_config(other_config, desired);
  if (!ssl.empty()) {
    auto tls = read_tls(database, ssl.front());
    if (!tls) {
      return tl::unexpected(tls.error());
    }
    desired.tls = *std::move(tls);
  }
  for (const auto& uuid : bridges) {
    auto read = bridge(database, uuid);
    if (!read) {
      return tl::unexpected(read.error());
    }
    desired.bridges.push_back(*std::move(read));
  }
  std::sort(desired.bridges.begin(), desired.bridges.end(),
            [](const auto& a, const auto& b) { return a->config.name < b->config.name; });
  return desired;
}

}  // namespace headrace::ovsdb
