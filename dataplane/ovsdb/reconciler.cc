// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/reconciler.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/log.h"

namespace headrace::ovsdb {
namespace {

/// Rows by their names: of a thousand bridges or ports none is looked for row by row.
template <typename Row>
using ByName = std::unordered_map<std::string_view, const Row*>;

ByName<InterfaceRow> by_name(const std::vector<InterfaceRow>& rows) {
  ByName<InterfaceRow> found;
  found.reserve(rows.size());
  for (const auto& row : rows) {
    found.emplace(row.spec.name, &row);
  }
  return found;
}

ByName<BridgeRow> by_name(const std::vector<std::shared_ptr<const BridgeRow>>& rows) {
  ByName<BridgeRow> found;
  found.reserve(rows.size());
  for (const auto& row : rows) {
    found.emplace(row->config.name, row.get());
  }
  return found;
}

template <typename Row>
const Row* find(const ByName<Row>& rows, const std::string& name) {
  const auto it = rows.find(name);
  return it == rows.end() ? nullptr : it->second;
}

std::string peer_option(const PortSpec& spec) {
  const auto it = spec.options.find("peer");
  return spec.type == "patch" && it != spec.options.end() ? it->second : std::string{};
}

/// Whether an interface requests a number other than the one that its port has.
bool requests_other_number(const InterfaceRow& row, const PortSpec& spec) {
  return row.requested && *row.requested != spec.number && spec.number != pipeline::kPortLocal;
}

/// The conditions that OVS requires of a patch port before it creates one.
std::optional<std::string> patch_error(const PortSpec& spec) {
  if (spec.type != "patch") {
    return std::nullopt;
  }
  const auto peer = peer_option(spec);
  if (peer.empty()) {
    return spec.name + ": patch type requires valid 'peer' argument";
  }
  if (peer == spec.name) {
    return spec.name + ": patch peer must not be self";
  }
  return std::nullopt;
}

}  // namespace

void Reconciler::apply(const Desired& desired) {
  failed_ = false;
  root_ = desired.root;
  notes_ = desired.notes;
  apply_workers(desired.workers);
  // Without a row, the settings of the command line are kept.
  if (desired.tls && desired.tls != tls_) {
    tls_ = desired.tls;
    control_.set_tls(*tls_);
  }
  remove_stale(desired);
  const std::vector<Lsi*> lsis = take_rows(desired);
  for (Lsi* lsi : lsis) {
    apply_lsi(*lsi);
  }
  for (Lsi* lsi : lsis) {
    apply_ports(*lsi);
  }
  pair_patches();
  for (Lsi* lsi : lsis) {
    apply_mirrors(*lsi);
    apply_controllers(*lsi);
    settle(*lsi);
  }
  applied_cfg_ = desired.next_cfg;
}

std::vector<Reconciler::Lsi*> Reconciler::take_rows(const Desired& desired) {
  std::vector<Lsi*> changed;
  for (const auto& row : desired.bridges) {
    Lsi& lsi = lsis_[row->config.name];
    if (lsi.row == row && lsi.is_settled) {
      continue;
    }
    if (lsi.row && lsi.row != row) {
      note_gone(*lsi.row, row.get());
    }
    lsi.row = row;
    changed.push_back(&lsi);
  }
  return changed;
}

void Reconciler::note_gone(const BridgeRow& before, const BridgeRow* now) {
  std::set<RowKey> stay;
  if (now != nullptr) {
    stay.insert(now->sources.begin(), now->sources.end());
  }
  std::copy_if(before.sources.begin(), before.sources.end(), std::back_inserter(gone_),
               [&](const RowKey& row) { return !stay.contains(row); });
}

void Reconciler::settle(Lsi& lsi) {
  lsi.is_settled = lsi.exists && !lsi.error && lsi.mirror_notes.empty();
  lsi.is_told = false;
  lsi.told_mirrors.clear();
  for (auto& [name, port] : lsi.ports) {
    lsi.is_settled = lsi.is_settled && port.exists && !port.error && !depends_on_others(port);
    port.is_told = false;
    port.told_statistics.clear();
  }
}

void Reconciler::apply_workers(const WorkerConfig& config) {
  if (workers_ == config) {
    return;
  }
  if (auto set = control_.set_workers(config); !set) {
    log::error("workers: {}", set.error().message);
    workers_error_ = set.error().message;
    workers_.reset();
    return;
  }
  workers_error_.reset();
  workers_ = config;
}

void Reconciler::remove_stale(const Desired& desired) {
  const auto bridges = by_name(desired.bridges);
  for (auto it = lsis_.begin(); it != lsis_.end();) {
    const std::string& name = it->first;
    Lsi& lsi = it->second;
    const BridgeRow* bridge = find(bridges, name);
    if (bridge == lsi.row.get() && lsi.is_settled) {
      ++it;
      continue;
    }
    const bool stays = bridge != nullptr && bridge->uuid == lsi.row->uuid;
    ByName<InterfaceRow> interfaces;
    if (stays && !lsi.ports.empty()) {
      interfaces = by_name(bridge->interfaces);
    }
    remove_ports(name, lsi, [&](const std::string& port_name, const Port& port) {
      const InterfaceRow* row = find(interfaces, port_name);
      return row == nullptr || row->error || row->spec.type != port.spec.type;
    });
    if (!stays) {
      if (lsi.exists) {
        control_.destroy_lsi(name);
      }
      note_gone(*lsi.row, nullptr);
      it = lsis_.erase(it);
      continue;
    }
    // The free numbers are known only now.
    remove_ports(name, lsi, [&](const std::string& port_name, const Port& port) {
      const InterfaceRow* row = find(interfaces, port_name);
      return port.exists && requests_other_number(*row, port.spec) &&
             (row->requested != port.requested || is_number_free(lsi, *row->requested));
    });
    ++it;
  }
}

void Reconciler::remove_ports(const std::string& name, Lsi& lsi,
                              const std::function<bool(const std::string&, const Port&)>& which) {
  for (auto port = lsi.ports.begin(); port != lsi.ports.end();) {
    if (!which(port->first, port->second)) {
      ++port;
      continue;
    }
    remove_port(name, port->second);
    port = lsi.ports.erase(port);
  }
}

void Reconciler::apply_lsi(Lsi& lsi) {
  const BridgeRow& row = *lsi.row;
  if (lsi.exists && lsi.config == row.config) {
    return;
  }
  const auto done = lsi.exists ? control_.update_lsi(row.config) : control_.create_lsi(row.config);
  if (!done) {
    record_failure("bridge " + row.config.name, done.error(), lsi.error, lsi.error);
    return;
  }
  lsi.exists = true;
  lsi.config = row.config;
  lsi.error.reset();
}

void Reconciler::apply_ports(Lsi& lsi) {
  const BridgeRow& row = *lsi.row;
  std::vector<InterfaceRow> order = row.interfaces;
  std::map<Uuid, uint32_t> numbers;
  for (auto& interface : order) {
    if (const auto had = lsi.numbers.find(interface.uuid); had != lsi.numbers.end()) {
      interface.last_number = had->second;
      numbers.insert(*had);
    }
  }
  lsi.numbers = std::move(numbers);  // without those of removed rows
  const auto rank = [](const InterfaceRow& r) { return r.requested ? 0 : r.last_number ? 1 : 2; };
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  for (const auto& interface : order) {
    apply_port(row.config.name, lsi, interface);
  }
}

void Reconciler::apply_port(const std::string& name, Lsi& lsi, const InterfaceRow& row) {
  auto& port = lsi.ports[row.spec.name];
  port.uuid = row.uuid;
  port.notes = row.notes;
  if (!port.exists) {
    create_port(name, lsi, port, row);
    return;
  }
  PortSpec spec = row.spec;
  spec.number = port.spec.number;
  port.requested = row.requested;
  if (spec == port.spec) {
    return;
  }
  if (peer_option(spec) != peer_option(port.spec)) {
    detach(name, port);
  }
  if (auto error = patch_error(spec)) {
    remove_port(name, port);
    port.error = std::move(error);
    return;
  }
  const auto updated = control_.update_port(name, spec);
  if (!updated) {
    record_failure("port " + spec.name, updated.error(), port.error, port.error);
    return;
  }
  if (!*updated) {
    remove_port(name, port);
    InterfaceRow again = row;
    again.last_number = spec.number;
    create_port(name, lsi, port, again);
    return;
  }
  port.spec = spec;
  port.error.reset();
}

void Reconciler::create_port(const std::string& name, Lsi& lsi, Port& port,
                             const InterfaceRow& row) {
  port.spec = row.spec;
  port.requested = row.requested;
  port.spec.number = 0;
  const auto error_before = std::exchange(port.error, std::nullopt);
  port.error = row.error ? row.error : patch_error(row.spec);
  if (!lsi.exists) {
    port.error = fmt::format("bridge {}: {}", name, lsi.error.value_or("not created"));
  }
  if (port.error) {
    return;
  }
  const uint32_t last_number = lsi.last_number;
  const auto number = choose_number(lsi, row);
  if (!number) {
    port.error = fmt::format("bridge {} has no free port number", name);
    return;
  }
  port.spec.number = *number;
  if (auto added = control_.add_port(name, port.spec); !added) {
    record_failure("port " + port.spec.name, added.error(), error_before, port.error);
    port.spec.number = 0;
    lsi.last_number = last_number;  // retries of a port don't consume numbers
    return;
  }
  port.exists = true;
}

void Reconciler::record_failure(const std::string& what, const Error& refusal,
                                const std::optional<std::string>& before,
                                std::optional<std::string>& error) {
  failed_ = true;
  if (before != refusal.message) {
    log::error("{}: {}", what, refusal.message);
  }
  error = refusal.message;
}

void Reconciler::remove_port(const std::string& name, Port& port) {
  detach(name, port);
  if (port.exists) {
    control_.remove_port(name, port.spec.name);
    port.exists = false;
    // Rules refer to the number, so the row's next port gets it too, e.g. one of another type.
    lsis_.at(name).numbers[port.uuid] = std::exchange(port.spec.number, 0);
  }
}

std::pair<const std::string*, Reconciler::Port*> Reconciler::find_port(const std::string& name) {
  for (auto& [lsi_name, lsi] : lsis_) {
    if (const auto it = lsi.ports.find(name); it != lsi.ports.end()) {
      return {&lsi_name, &it->second};
    }
  }
  return {nullptr, nullptr};
}

const Reconciler::Port* Reconciler::find_port(const std::string& name) const {
  for (const auto& [lsi_name, lsi] : lsis_) {
    if (const auto it = lsi.ports.find(name); it != lsi.ports.end()) {
      return &it->second;
    }
  }
  return nullptr;
}

void Reconciler::detach(const std::string& lsi_name, Port& port) {
  if (port.peer.empty()) {
    return;
  }
  control_.disconnect_patch(lsi_name, port.spec.name);
  if (auto [peer_lsi, peer] = find_port(port.peer); peer != nullptr) {
    peer->peer.clear();
    peer->is_told = false;
  }
  port.peer.clear();
}

void Reconciler::pair_patches() {
  for (auto& [lsi_name, lsi] : lsis_) {
    for (auto& [port_name, port] : lsi.ports) {
      if (!port.exists || port.spec.type != "patch" || !port.peer.empty()) {
        continue;
      }
      const auto wanted = peer_option(port.spec);
      if (wanted.empty()) {
        continue;
      }
      auto [peer_lsi, peer] = find_port(wanted);
      if (peer == nullptr || !peer->exists || peer_option(peer->spec) != port_name ||
          !peer->peer.empty()) {
        continue;
      }
      port.is_told = peer->is_told = false;
      if (auto joined = control_.connect_patch(lsi_name, port_name, *peer_lsi, wanted); !joined) {
        log::error("patch {} to {}: {}", port_name, wanted, joined.error().message);
        port.error = peer->error = joined.error().message;
        continue;
      }
      port.error.reset();
      peer->error.reset();
      port.peer = wanted;
      peer->peer = port_name;
    }
  }
}

void Reconciler::apply_controllers(Lsi& lsi) {
  const BridgeRow& row = *lsi.row;
  std::vector<ControllerSpec> specs;
  for (const auto& controller : row.controllers) {
    specs.push_back(controller.spec);
  }
  if (lsi.exists && specs != lsi.controllers) {
    control_.set_controllers(row.config.name, specs);
    lsi.controllers = std::move(specs);
  }
}

void Reconciler::apply_mirrors(Lsi& lsi) {
  const BridgeRow& row = *lsi.row;
  lsi.mirror_notes.clear();
  std::vector<pipeline::MirrorConfig> mirrors;
  for (const auto& mirror : row.mirrors) {
    auto config = mirror.config;
    const auto number_of = [&](const std::string& name) -> std::optional<pipeline::PortNo> {
      const auto port = lsi.ports.find(name);
      if (port != lsi.ports.end() && port->second.exists) {
        return port->second.spec.number;
      }
      lsi.mirror_notes.push_back(fmt::format(
          "mirror {}: port {} could not be made; see error of its interface", mirror.name, name));
      return std::nullopt;
    };
    for (const auto& name : mirror.received) {
      if (const auto number = number_of(name)) {
        config.select_received.push_back(*number);
      }
    }
    for (const auto& name : mirror.sent) {
      if (const auto number = number_of(name)) {
        config.select_sent.push_back(*number);
      }
    }
    if (mirror.output) {
      config.output_port = number_of(*mirror.output);
      if (!config.output_port) {
        continue;
      }
    }
    mirrors.push_back(std::move(config));
  }
  if (!lsi.exists || mirrors == lsi.mirrors) {
    return;
  }
  if (auto set = control_.set_mirrors(row.config.name, mirrors); !set) {
    log::error("bridge {}: mirrors: {}", row.config.name, set.error().message);
    lsi.mirror_notes.push_back("mirrors: " + set.error().message);
    return;
  }
  lsi.mirrors = std::move(mirrors);
}

bool Reconciler::is_number_free(const Lsi& lsi, uint32_t number) {
  return std::none_of(lsi.ports.begin(), lsi.ports.end(), [&](const auto& entry) {
    return entry.second.exists && entry.second.spec.number == number;
  });
}

std::optional<uint32_t> Reconciler::choose_number(Lsi& lsi, const InterfaceRow& row) {
  if (row.spec.number == pipeline::kPortLocal) {
    return pipeline::kPortLocal;
  }
  for (const auto& wish : {row.requested, row.last_number}) {
    if (wish && is_number_free(lsi, *wish)) {
      lsi.last_number = std::max(lsi.last_number, *wish);
      return wish;
    }
  }
  const auto count = static_cast<uint32_t>(kOfportMax);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t number = (lsi.last_number + i) % count + 1;
    if (is_number_free(lsi, number)) {
      lsi.last_number = number;
      return number;
    }
  }
  return std::nullopt;
}

}  // namespace headrace::ovsdb
