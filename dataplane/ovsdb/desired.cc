// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/desired.h"

#include <algorithm>
#include <set>

#include "ovsdb/parse.h"

namespace headrace::ovsdb {
namespace {

std::optional<std::string> lookup(const StringMap& map, const std::string& key) {
  const auto it = map.find(key);
  return it == map.end() ? std::nullopt : std::optional(it->second);
}

/// A stable datapath id for a bridge that asks for none: 48 bits of its row's UUID, made a locally
/// administered unicast address, since OVS's datapath ids are MAC addresses too.
uint64_t default_datapath_id(const Uuid& uuid) {
  const uint64_t bits = parse_unsigned(uuid.substr(24), 16).value_or(1);
  return (bits & ~(uint64_t{1} << 40)) | uint64_t{2} << 40;
}

Result<InterfaceRow> read_interface(const Uuid& uuid, const Json& columns,
                                    const std::string& bridge, std::vector<std::string>& warnings) {
  InterfaceRow row;
  row.uuid = uuid;
  RowReader reader("Interface", uuid, columns);
  row.spec.name = reader.string("name");
  row.spec.type = reader.string("type");
  row.spec.options = reader.map("options");
  row.spec.mac = reader.optional_string("mac");
  const auto mtu = reader.optional_integer("mtu_request");
  const auto ofport = reader.optional_integer("ofport");
  const auto requested = reader.optional_integer("ofport_request");
  const auto other_config = reader.map("other_config");
  if (auto status = reader.status(); !status) {
    return tl::unexpected(status.error());
  }
  if (mtu) {
    row.spec.mtu = static_cast<uint32_t>(std::clamp<int64_t>(*mtu, 1, UINT16_MAX));
  }
  if (requested && *requested >= 1 && *requested <= kOfportMax) {
    row.requested = static_cast<uint32_t>(*requested);
  }
  if (ofport && *ofport >= 1 && *ofport <= kOfportMax) {
    row.last_number = static_cast<uint32_t>(*ofport);
  }
  if (row.spec.name == bridge) {
    row.spec.number = pipeline::kPortLocal;
    if (row.spec.type.empty()) {
      row.spec.type = "internal";
    }
  }
  if (row.spec.type.empty()) {
    row.spec.type = "system";
  }
  if (const auto text = lookup(other_config, "pmd-rxq-affinity")) {
    if (auto affinity = parse_rxq_affinity(*text)) {
      row.spec.rxq_affinity = *std::move(affinity);
    } else {
      warnings.push_back(
          fmt::format("interface {}: other_config:{}", row.spec.name, affinity.error().message));
    }
  }
  return row;
}

/// A number of other_config; what is no number is a warning and 0.
uint64_t read_number(const StringMap& config, const std::string& key, const std::string& where,
                     std::vector<std::string>& warnings) {
  const auto text = lookup(config, key);
  if (!text) {
    return 0;
  }
  const auto number = parse_unsigned(*text);
  if (!number) {
    warnings.push_back(fmt::format("{}: other_config:{} '{}' is no number", where, key, *text));
  }
  return number.value_or(0);
}

/// A QoS row with its queues, in the words of Open vSwitch's linux-htb. Nothing for a type that is
/// not served.
Result<std::optional<QosSpec>> read_qos(const Database& database, const Uuid& uuid,
                                        const std::string& port,
                                        std::vector<std::string>& warnings) {
  const auto& rows = database.table("QoS");
  const auto it = rows.find(uuid);
  if (it == rows.end()) {
    return fail("Port {} refers to QoS {}, which is not there", port, uuid);
  }
  RowReader reader("QoS", uuid, it->second);
  const auto type = reader.string("type");
  const auto queues = reader.numbered_uuids("queues");
  const auto other_config = reader.map("other_config");
  if (auto status = reader.status(); !status) {
    return tl::unexpected(status.error());
  }
  if (type != "linux-htb") {
    if (type != "linux-noop") {
      warnings.push_back(
          fmt::format("port {}: QoS type '{}' is not supported; use linux-htb", port, type));
    }
    return std::nullopt;
  }
  QosSpec qos;
  const std::string where = fmt::format("port {}: QoS", port);
  qos.max_rate_bps = read_number(other_config, "max-rate", where, warnings);
  for (const auto& [id, queue_uuid] : queues) {
    const auto& queue_rows = database.table("Queue");
    const auto queue = queue_rows.find(queue_uuid);
    if (queue == queue_rows.end()) {
      return fail("QoS {} refers to Queue {}, which is not there", uuid, queue_uuid);
    }
    RowReader queue_reader("Queue", queue_uuid, queue->second);
    const auto config = queue_reader.map("other_config");
    if (auto status = queue_reader.status(); !status) {
      return tl::unexpected(status.error());
    }
    const std::string name = fmt::format("port {}: queue {}", port, id);
    qos.queues.push_back(
        {.id = static_cast<uint32_t>(id),
         .min_rate_bps = read_number(config, "min-rate", name, warnings),
         .max_rate_bps = read_number(config, "max-rate", name, warnings),
         .burst_bits = read_number(config, "burst", name, warnings),
         .priority = static_cast<uint32_t>(read_number(config, "priority", name, warnings))});
  }
  return qos;
}

/// The interfaces of one Port row, with a complaint on each if the port is a bond.
Result<> read_port(const Database& database, const Uuid& uuid, BridgeRow& bridge,
                   std::vector<std::string>& warnings) {
  const auto& ports = database.table("Port");
  const auto port = ports.find(uuid);
  if (port == ports.end()) {
    return fail("Bridge {} refers to Port {}, which is not there", bridge.config.name, uuid);
  }
  RowReader reader("Port", uuid, port->second);
  const auto name = reader.string("name");
  const auto interfaces = reader.uuids("interfaces");
  const auto qos_rows = reader.uuids("qos");
  if (auto status = reader.status(); !status) {
    return status;
  }
  std::optional<QosSpec> qos;
  if (!qos_rows.empty()) {
    auto read = read_qos(database, qos_rows.front(), name, warnings);
    if (!read) {
      return tl::unexpected(read.error());
    }
    qos = *std::move(read);
  }
  for (const auto& interface_uuid : interfaces) {
    const auto& rows = database.table("Interface");
    const auto it = rows.find(interface_uuid);
    if (it == rows.end()) {
      return fail("Port {} refers to Interface {}, which is not there", name, interface_uuid);
    }
    auto row = read_interface(interface_uuid, it->second, bridge.config.name, warnings);
    if (!row) {
      return tl::unexpected(row.error());
    }
    row->spec.qos = qos;
    if (interfaces.size() > 1) {
      row->complaint = fmt::format(
          "port {} is a bond of {} interfaces, and bonds are not supported; give each interface a "
          "port of its own",
          name, interfaces.size());
    }
    bridge.interfaces.push_back(*std::move(row));
  }
  return {};
}

Result<ControllerRow> read_controller(const Uuid& uuid, const Json& columns) {
  ControllerRow row{.uuid = uuid, .spec = {}};
  RowReader reader("Controller", uuid, columns);
  row.spec.target = reader.string("target");
  const auto backoff = reader.optional_integer("max_backoff");
  const auto probe = reader.optional_integer("inactivity_probe");
  if (auto status = reader.status(); !status) {
    return tl::unexpected(status.error());
  }
  if (backoff) {
    row.spec.max_backoff_ms = static_cast<uint32_t>(std::clamp<int64_t>(*backoff, 1000, INT32_MAX));
  }
  if (probe) {
    row.spec.inactivity_probe_ms = static_cast<uint32_t>(std::clamp<int64_t>(*probe, 0, INT32_MAX));
  }
  return row;
}

/// The columns of a Bridge row itself. Lists of ports and controllers are returned by reference.
Result<> read_bridge_columns(RowReader& reader, BridgeRow& row, std::vector<Uuid>& ports,
                             std::vector<Uuid>& controllers, std::vector<std::string>& warnings) {
  auto& config = row.config;
  config.name = reader.string("name");
  config.other_config = reader.map("other_config");
  const auto fail_mode = reader.optional_string("fail_mode");
  const auto protocols = reader.strings("protocols");
  ports = reader.uuids("ports");
  controllers = reader.uuids("controller");
  if (auto status = reader.status(); !status) {
    return status;
  }
  config.fail_mode = fail_mode == "secure" ? FailMode::secure : FailMode::standalone;
  for (const auto& protocol : protocols) {
    if (const auto version = parse_protocol(protocol)) {
      config.protocols.push_back(*version);
    }
  }
  std::sort(config.protocols.begin(), config.protocols.end());
  config.description = lookup(config.other_config, "dp-desc").value_or("");
  config.datapath_id = default_datapath_id(row.uuid);
  if (const auto text = lookup(config.other_config, "datapath-id")) {
    if (const auto id = parse_datapath_id(*text)) {
      config.datapath_id = *id;
    } else {
      row.complaint = "other_config:" + id.error().message;
      warnings.push_back(fmt::format("bridge {}: {}", config.name, *row.complaint));
    }
  }
  return {};
}

Result<BridgeRow> read_bridge(const Database& database, const Uuid& uuid, const Json& columns,
                              std::vector<std::string>& warnings) {
  BridgeRow row;
  row.uuid = uuid;
  RowReader reader("Bridge", uuid, columns);
  std::vector<Uuid> ports;
  std::vector<Uuid> controllers;
  if (auto read = read_bridge_columns(reader, row, ports, controllers, warnings); !read) {
    return tl::unexpected(read.error());
  }
  for (const auto& port : ports) {
    if (auto read = read_port(database, port, row, warnings); !read) {
      return tl::unexpected(read.error());
    }
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

void read_root_config(const StringMap& other_config, Desired& desired) {
  if (const auto text = lookup(other_config, "pmd-cpu-mask")) {
    if (auto cpus = parse_cpu_mask(*text)) {
      desired.workers.cpus = *std::move(cpus);
    } else {
      desired.warnings.push_back("other_config:" + cpus.error().message);
    }
  }
  if (const auto text = lookup(other_config, "pmd-maxsleep")) {
    const auto micros = parse_unsigned(*text);
    if (micros && *micros <= 10000) {
      desired.workers.max_sleep_us = static_cast<uint32_t>(*micros);
    } else {
      desired.warnings.push_back(
          fmt::format("other_config:pmd-maxsleep '{}' is not 0 to 10000 microseconds", *text));
    }
  }
  if (const auto text = lookup(other_config, "stats-update-interval")) {
    const auto millis = parse_unsigned(*text);
    if (millis && *millis <= INT32_MAX) {
      // As in OVS, 5 s is the least: statistics are transactions that every monitor hears.
      desired.stats_interval = std::chrono::milliseconds(std::max<uint64_t>(*millis, 5000));
    } else {
      desired.warnings.push_back(
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
                 reader.string("ca_cert")};
  if (auto status = reader.status(); !status) {
    return tl::unexpected(status.error());
  }
  return files;
}

}  // namespace

Result<Desired> read_desired(const Database& database) {
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
    const auto& rows = database.table("Bridge");
    const auto it = rows.find(uuid);
    if (it == rows.end()) {
      return fail("Open_vSwitch refers to Bridge {}, which is not there", uuid);
    }
    auto bridge = read_bridge(database, uuid, it->second, desired.warnings);
    if (!bridge) {
      return tl::unexpected(bridge.error());
    }
    desired.bridges.push_back(*std::move(bridge));
  }
  std::sort(desired.bridges.begin(), desired.bridges.end(),
            [](const auto& a, const auto& b) { return a.config.name < b.config.name; });
  return desired;
}

}  // namespace headrace::ovsdb
