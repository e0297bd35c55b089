// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/desired_port.h"

#include <algorithm>

#include "ovsdb/parse.h"

namespace headrace::ovsdb {

std::optional<std::string> lookup(const StringMap& map, const std::string& key) {
  const auto it = map.find(key);
  return it == map.end() ? std::nullopt : std::optional(it->second);
}

namespace {

using pipeline::PortVlans;

/// Adds notes for settings of an interface that have no effect.
void note_unsupported(RowReader& reader, Notes& notes) {
  if (reader.integer("ingress_policing_rate") != 0 ||
      reader.integer("ingress_policing_kpkts_rate") != 0) {
    notes.emplace_back(
        "ingress_policing_rate and ingress_policing_kpkts_rate are not supported and nothing is "
        "limited; use an OpenFlow meter, and set them to 0");
  }
  if (lookup(reader.map("bfd"), "enable") == "true") {
    notes.emplace_back("bfd is not supported; clear the column");
  }
  if (reader.optional_integer("cfm_mpid")) {
    notes.emplace_back("cfm_mpid: CFM is not supported; clear the column");
  }
  if (lookup(reader.map("lldp"), "enable") == "true") {
    notes.emplace_back("lldp is not supported; clear the column");
  }
}

Result<InterfaceRow> read_interface(const Uuid& uuid, const Json& columns,
                                    const std::string& bridge) {
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
  note_unsupported(reader, row.notes);
  if (auto status = reader.status(); !status) {
    return tl::unexpected(status.error());
  }
  note_other_config(other_config, {"pmd-rxq-affinity"}, "", row.notes);
  if (mtu) {
    row.spec.mtu = static_cast<uint32_t>(std::clamp<int64_t>(*mtu, 0, INT32_MAX));
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
      row.notes.push_back("other_config:" + affinity.error().message);
    }
  }
  return row;
}

/// A number of other_config; if it is malformed, 0 and a note.
uint64_t read_number(const StringMap& config, const std::string& key, const std::string& where,
                     Notes& notes) {
  const auto text = lookup(config, key);
  if (!text) {
    return 0;
  }
  const auto number = parse_unsigned(*text);
  if (!number) {
    notes.push_back(fmt::format("{}: other_config:{} '{}' is not a number", where, key, *text));
  }
  return number.value_or(0);
}

/// A QoS row with its queues, with the keys of Open vSwitch's linux-htb. Nothing for a type that is
/// not supported.
Result<std::optional<pipeline::QosConfig>> read_qos(const Database& database, const Uuid& uuid,
                                                    PortRow& port, std::vector<RowKey>& sources) {
  Notes& notes = port.notes;
  const auto& rows = database.table("QoS");
  const auto it = rows.find(uuid);
  if (it == rows.end()) {
    return fail("Port {} refers to QoS {}, which is not there", port.name, uuid);
  }
  sources.emplace_back("QoS", uuid);
  RowReader reader("QoS", uuid, it->second);
  const auto type = reader.string("type");
  const auto queues = reader.numbered_uuids("queues");
  const auto other_config = reader.map("other_config");
  if (auto status = reader.status(); !status) {
    return tl::unexpected(status.error());
  }
  if (type != "linux-htb") {
    if (type != "linux-noop") {
      notes.push_back(fmt::format("qos: type '{}' is not supported; use linux-htb", type));
    }
    return std::nullopt;
  }
  pipeline::QosConfig qos;
  qos.max_rate_bps = read_number(other_config, "max-rate", "QoS", notes);
  note_other_config(other_config, {"max-rate"}, "QoS: ", notes);
  for (const auto& [id, queue_uuid] : queues) {
    const auto& queue_rows = database.table("Queue");
    const auto queue = queue_rows.find(queue_uuid);
    if (queue == queue_rows.end()) {
      return fail("QoS {} refers to Queue {}, which is not there", uuid, queue_uuid);
    }
    sources.emplace_back("Queue", queue_uuid);
    RowReader queue_reader("Queue", queue_uuid, queue->second);
    const auto config = queue_reader.map("other_config");
    const auto dscp = queue_reader.optional_integer("dscp");
    if (auto status = queue_reader.status(); !status) {
      return tl::unexpected(status.error());
    }
    const std::string name = fmt::format("queue {}", id);
    if (dscp) {
      notes.push_back(name + ": dscp is not supported; set ip_dscp by a rule");
    }
    note_other_config(config, {"min-rate", "max-rate", "burst", "priority"}, name + ": ", notes);
    qos.queues.push_back(
        {.id = static_cast<uint32_t>(id),
         .min_rate_bps = read_number(config, "min-rate", name, notes),
         .max_rate_bps = read_number(config, "max-rate", name, notes),
         .burst_bits = read_number(config, "burst", name, notes),
         .priority = static_cast<uint32_t>(read_number(config, "priority", name, notes))});
  }
  return qos;
}

/// The VLAN columns, with Open vSwitch's defaults (bridge.c's port_configure).
std::optional<PortVlans> read_vlans(RowReader& reader, const StringMap& other_config, Notes& notes,
                                    std::optional<std::string>& error) {
  PortVlans vlans;
  const auto tag = reader.optional_integer("tag");
  const auto trunks = reader.integers("trunks");
  const auto mode = reader.optional_string("vlan_mode");
  if (mode == "dot1q-tunnel") {
    error = "vlan_mode dot1q-tunnel is not supported; push and pop the outer tag by rules";
    return std::nullopt;
  }
  if (!reader.integers("cvlans").empty()) {
    notes.emplace_back("cvlans is not supported; clear the column");
  }
  using Mode = PortVlans::Mode;
  vlans.mode = mode == "access"            ? Mode::access
               : mode == "native-tagged"   ? Mode::native_tagged
               : mode == "native-untagged" ? Mode::native_untagged
               : !mode && tag              ? Mode::access
                                           : Mode::trunk;
  if (vlans.mode != Mode::trunk) {
    vlans.tag = static_cast<uint16_t>(tag.value_or(0) & 0xfff);
  } else if (tag) {
    notes.emplace_back("tag has no meaning with vlan_mode trunk; clear one of them");
  }
  if (!trunks.empty()) {
    if (vlans.mode == Mode::access) {
      notes.emplace_back("trunks has no meaning at an access port; clear it or set vlan_mode");
    } else {
      vlans.trunks.reset();
      for (const int64_t vlan : trunks) {
        vlans.trunks.set(static_cast<size_t>(vlan) & 0xfff);
      }
    }
  }
  vlans.is_protected = reader.boolean("protected");
  if (const auto text = lookup(other_config, "priority-tags")) {
    using Tags = PortVlans::PriorityTags;
    if (*text == "if-nonzero" || *text == "true") {
      vlans.priority_tags = Tags::if_nonzero;
    } else if (*text == "always") {
      vlans.priority_tags = Tags::always;
    } else if (*text != "never" && *text != "no" && *text != "false") {
      notes.push_back(
          fmt::format("other_config:priority-tags '{}' is not never, if-nonzero or always", *text));
    }
  }
  return vlans == PortVlans{} ? std::nullopt : std::optional(vlans);
}

}  // namespace

Result<> read_port(const Database& database, const Uuid& uuid, BridgeRow& bridge) {
  const auto& ports = database.table("Port");
  const auto port = ports.find(uuid);
  if (port == ports.end()) {
    return fail("Bridge {} refers to Port {}, which is not there", bridge.config.name, uuid);
  }
  bridge.sources.emplace_back("Port", uuid);
  RowReader reader("Port", uuid, port->second);
  const auto name = reader.string("name");
  PortRow row{.uuid = uuid, .name = name, .notes = {}};
  const auto interfaces = reader.uuids("interfaces");
  const auto qos_rows = reader.uuids("qos");
  const auto other_config = reader.map("other_config");
  std::optional<std::string> error;
  const auto vlans = read_vlans(reader, other_config, row.notes, error);
  const auto lacp = reader.optional_string("lacp");
  if (reader.optional_string("mac")) {
    row.notes.emplace_back("mac is not supported; set mac of the interface");
  }
  if (auto status = reader.status(); !status) {
    return status;
  }
  note_other_config(other_config, {"priority-tags"}, "", row.notes);
  if (lacp && *lacp != "off") {
    row.notes.push_back(fmt::format("lacp={} is not supported; clear the column", *lacp));
  }
  if (interfaces.size() > 1) {
    error = fmt::format(
        "is a bond of {} interfaces, and bonds are not supported; give each interface its own "
        "port",
        interfaces.size());
  }
  if (error) {
    row.notes.push_back(*error);
  }
  std::optional<pipeline::QosConfig> qos;
  if (!qos_rows.empty()) {
    auto read = read_qos(database, qos_rows.front(), row, bridge.sources);
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
    bridge.sources.emplace_back("Interface", interface_uuid);
    auto interface = read_interface(interface_uuid, it->second, bridge.config.name);
    if (!interface) {
      return tl::unexpected(interface.error());
    }
    interface->spec.qos = qos;
    interface->spec.vlans = vlans;
    if (error) {
      interface->error = fmt::format("port {}: {}", name, *error);
    }
    row.interfaces.push_back(interface->spec.name);
    bridge.interfaces.push_back(*std::move(interface));
  }
  bridge.ports.push_back(std::move(row));
  return {};
}

}  // namespace headrace::ovsdb
