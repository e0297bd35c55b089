// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/desired_mirror.h"

#include <algorithm>

namespace headrace::ovsdb {
namespace {

/// The interface of a port of the bridge; nothing, with a note, if the bridge has no such port.
std::optional<std::string> interface_of(const BridgeRow& bridge, const Uuid& port,
                                        const std::string& column, const std::string& mirror,
                                        Notes& notes) {
  const auto row = std::find_if(bridge.ports.begin(), bridge.ports.end(),
                                [&](const PortRow& each) { return each.uuid == port; });
  if (row == bridge.ports.end()) {
    notes.push_back(fmt::format("mirror {}: {} names a port of another bridge", mirror, column));
    return std::nullopt;
  }
  if (row->interfaces.size() != 1) {
    return std::nullopt;  // the port's own row has the error
  }
  return row->interfaces.front();
}

std::optional<MirrorRow> read_mirror(RowReader& reader, const Uuid& uuid, BridgeRow& bridge) {
  MirrorRow row{.uuid = uuid};
  row.name = reader.string("name");
  row.config.id = uuid;
  row.config.name = row.name;
  row.config.select_all = reader.boolean("select_all");
  const auto received = reader.uuids("select_src_port");
  const auto sent = reader.uuids("select_dst_port");
  const auto vlans = reader.integers("select_vlan");
  const auto output_ports = reader.uuids("output_port");
  const auto output_vlan = reader.optional_integer("output_vlan");
  const auto snaplen = reader.optional_integer("snaplen");
  if (!reader.status()) {
    return std::nullopt;
  }
  const auto note = [&](const std::string& text) {
    bridge.notes.push_back(fmt::format("mirror {}: {}", row.name, text));
  };
  for (const auto& [ports, names, column] :
       {std::tuple(&received, &row.received, "select_src_port"),
        std::tuple(&sent, &row.sent, "select_dst_port")}) {
    for (const Uuid& port : *ports) {
      if (auto name = interface_of(bridge, port, column, row.name, bridge.notes)) {
        names->push_back(*std::move(name));
      }
    }
  }
  if (!vlans.empty()) {
    row.config.select_vlans.emplace();
    for (const int64_t vlan : vlans) {
      row.config.select_vlans->set(static_cast<size_t>(vlan) & 0xfff);
    }
  }
  if (snaplen) {
    row.config.max_length = static_cast<uint32_t>(std::clamp<int64_t>(*snaplen, 14, UINT16_MAX));
  }
  if (output_ports.empty() && !output_vlan) {
    note("it has neither output_port nor output_vlan and copies nothing; set one of them");
    return std::nullopt;
  }
  if (!output_ports.empty()) {
    if (output_vlan) {
      note("output_vlan has no effect together with output_port; clear one of them");
    }
    row.output = interface_of(bridge, output_ports.front(), "output_port", row.name, bridge.notes);
    if (!row.output) {
      return std::nullopt;
    }
    std::erase(row.received, *row.output);
    std::erase(row.sent, *row.output);
    return row;
  }
  row.config.output_vlan = static_cast<uint16_t>(std::clamp<int64_t>(*output_vlan, 0, 4095));
  if (*row.config.output_vlan == 0) {
    note("output_vlan 0 is not a VLAN; use 1 to 4095");
    return std::nullopt;
  }
  return row;
}

}  // namespace

Result<> read_mirrors(const Database& database, const std::vector<Uuid>& uuids, BridgeRow& bridge) {
  for (const Uuid& uuid : uuids) {
    const auto& rows = database.table("Mirror");
    const auto it = rows.find(uuid);
    if (it == rows.end()) {
      return fail("Bridge {} refers to Mirror {}, which is not there", bridge.config.name, uuid);
    }
    bridge.sources.emplace_back("Mirror", uuid);
    RowReader reader("Mirror", uuid, it->second);
    auto row = read_mirror(reader, uuid, bridge);
    if (auto status = reader.status(); !status) {
      return status;
    }
    if (row && row->config.select_vlans && !row->config.select_all && row->received.empty() &&
        row->sent.empty()) {
      bridge.notes.push_back(fmt::format(
          "mirror {}: select_vlan chooses among the packets of ports; set select_all too",
          row->name));
    }
    if (row) {
      bridge.mirrors.push_back(*std::move(row));
    }
  }
  return {};
}

}  // namespace headrace::ovsdb
