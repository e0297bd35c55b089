// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/switch_lsi.h"

#include <rte_cycles.h>

#include <cstring>
#include <thread>

#include "base/log.h"
#include "packet/mac_address.h"
#include "pipeline/execute/defragmenter.h"
#include "pipeline/execute/tunnel_port.h"
#include "pipeline/program/action_program.h"

namespace headrace::runtime {

namespace {

constexpr std::string_view kPatch = "patch";
constexpr std::string_view kDefrag = "defrag";

pipeline::NormalConfig normal_of(const ovsdb::LsiConfig& config) {
  return {.mac_age = std::chrono::seconds(config.mac_age_s),
          .forward_reserved = config.forward_bpdu};
}

/// For as many workers as there can be here.
Result<std::shared_ptr<pipeline::Defragmenter>> make_defragmenter() {
  const unsigned cpus = std::max(std::thread::hardware_concurrency(), 1u);
  return pipeline::Defragmenter::make(std::min(cpus, pipeline::kMaxWorkers), rte_get_tsc_hz());
}

/// The ofp_port_features bit of a speed; none for speeds that OpenFlow 1.3 has no bit for.
uint32_t speed_feature(uint64_t speed_bps) {
  switch (speed_bps / 1'000'000) {
    case 10:
      return 1 << 1;
    case 100:
      return 1 << 3;
    case 1'000:
      return 1 << 5;
    case 10'000:
      return 1 << 6;
    case 40'000:
      return 1 << 7;
    case 100'000:
      return 1 << 8;
    default:
      return 0;
  }
}

uint32_t kilobits(const port::LinkState& link) {
  return static_cast<uint32_t>(std::min<uint64_t>(link.speed_bps / 1000, UINT32_MAX));
}

}  // namespace

Result<std::unique_ptr<SwitchLsi>> SwitchLsi::make(SwitchParts parts, uint32_t id,
                                                   const ovsdb::LsiConfig& config) {
  if (config.name.empty() || config.name.find('/') != std::string::npos) {
    return fail("bridge '{}': a name must not be empty or have a '/'", config.name);
  }
  std::unique_ptr<SwitchLsi> lsi(new SwitchLsi(std::move(parts), id, config));
  const std::string socket = lsi->parts_.rundir + "/" + config.name;
  if (Result<> listening = lsi->agent_->listen(socket + ".mgmt"); !listening) {
    return tl::unexpected(listening.error());
  }
  if (Result<> listening = lsi->agent_->listen_for_snoopers(socket + ".snoop"); !listening) {
    return tl::unexpected(listening.error());
  }
  lsi->install_default_rules();
  return lsi;
}

SwitchLsi::SwitchLsi(SwitchParts parts, uint32_t id, const ovsdb::LsiConfig& config)
    : parts_(std::move(parts)), config_(config), packet_outs_(parts_.pools, parts_.workers, id) {
  lsi_ = std::make_shared<pipeline::Lsi>(
      pipeline::LsiConfig{.id = id, .name = config.name, .clock = {}, .builder = &parts_.builder},
      parts_.qsbr);
  lsi_->set_normal(normal_of(config));
  fail_open_.emplace(*lsi_);
  agent_ =
      std::make_unique<openflow::Agent>(parts_.io, *lsi_, *this,
                                        openflow::AgentConfig{.datapath_id = config.datapath_id,
                                                              .name = config.name,
                                                              .description = config.description,
                                                              .tls = &parts_.tls});
}

void SwitchLsi::install_default_rules() {
  if (config_.fail_mode != ovsdb::FailMode::standalone) return;
  pipeline::FlowMod normal;
  normal.instructions.push_back(
      pipeline::ApplyActions{{pipeline::OutputAction{.port = pipeline::kPortNormal}}});
  if (const auto done = lsi_->flow_mod(normal); !done) {
    log::error("{}: the rule for fail-mode standalone is refused (error type {}, code {})",
               config_.name, done.error().type, done.error().code);
  }
}

void SwitchLsi::start_rules_anew() {
  pipeline::FlowMod flush;
  flush.command = pipeline::FlowMod::Command::remove;
  flush.table_id = pipeline::kTableAll;
  if (const auto done = lsi_->flow_mod(flush); !done) {
    log::error("{}: rules could not be flushed (error type {}, code {})", config_.name,
               done.error().type, done.error().code);
  }
  if (!has_controllers_) install_default_rules();
}

void SwitchLsi::update(const ovsdb::LsiConfig& config) {
  if (config.datapath_id != config_.datapath_id) agent_->set_datapath_id(config.datapath_id);
  agent_->set_description(config.description);
  lsi_->set_normal(normal_of(config));
  const bool fail_mode_changed = config.fail_mode != config_.fail_mode;
  config_ = config;
  if (fail_mode_changed && !has_controllers_) start_rules_anew();
}

void SwitchLsi::set_controllers(const std::vector<ovsdb::ControllerSpec>& controllers) {
  std::vector<openflow::ControllerConfig> configs;
  for (const ovsdb::ControllerSpec& spec : controllers) {
    configs.push_back({.target = spec.target,
                       .inactivity_probe = std::chrono::milliseconds(spec.inactivity_probe_ms),
                       .max_backoff = std::chrono::milliseconds(spec.max_backoff_ms),
                       .packet_in_rate = spec.packet_in_rate,
                       .packet_in_burst = spec.packet_in_burst});
  }
  longest_probe_ = {};
  for (const openflow::ControllerConfig& config : configs) {
    longest_probe_ = std::max(longest_probe_, config.inactivity_probe);
  }
  // As OVS: with the first controller, and without the last one, the rules start anew.
  if (has_controllers_ != !controllers.empty()) {
    has_controllers_ = !controllers.empty();
    start_rules_anew();
  }
  agent_->set_controllers(configs);
}

void SwitchLsi::watch_controllers() {
  fail_open_->update(has_controllers_ && config_.fail_mode == ovsdb::FailMode::standalone,
                     agent_->is_connected(), longest_probe_, FailOpen::Clock::now());
}

std::map<std::string, ovsdb::ControllerState> SwitchLsi::controller_states() const {
  std::map<std::string, ovsdb::ControllerState> states;
  for (const openflow::ControllerStatus& status : agent_->status()) {
    ovsdb::ControllerState& state = states[status.target];
    state.is_connected = status.is_connected;
    switch (status.role) {
      case openflow::Role::master:
        state.role = "master";
        break;
      case openflow::Role::slave:
        state.role = "slave";
        break;
      default:
        state.role = "other";
    }
    state.status["state"] = status.state;
    if (!status.last_error.empty()) state.status["last_error"] = status.last_error;
    if (status.packet_ins_limited > 0) {
      state.status["packet_ins_limited"] = std::to_string(status.packet_ins_limited);
    }
    if (status.packet_ins_dropped > 0) {
      state.status["packet_ins_dropped"] = std::to_string(status.packet_ins_dropped);
    }
    if (status.since_connect.count() >= 0) {
      state.status["sec_since_connect"] = std::to_string(status.since_connect.count());
    }
    if (status.since_disconnect.count() >= 0) {
      state.status["sec_since_disconnect"] = std::to_string(status.since_disconnect.count());
    }
  }
  return states;
}

Result<std::unique_ptr<PortQueues>> SwitchLsi::make_queues(
    const std::optional<pipeline::QosConfig>& qos, pipeline::PortIo& io) {
  static unsigned serial = 0;
  if (!qos) return nullptr;
  return PortQueues::make(fmt::format("txq-{}", serial++), io, *qos, rte_get_tsc_hz(),
                          parts_.backlog);
}

Result<std::unique_ptr<SwitchPort>> SwitchLsi::open_device(const ovsdb::PortSpec& spec) {
  const unsigned cpus = std::max(std::thread::hardware_concurrency(), 1u);
  port::PortConfig config{
      .name = spec.name,
      .type = spec.type,
      .options = spec.options,
      .rundir = parts_.rundir,
      .mtu = spec.mtu,
      .tx_queues_wanted = static_cast<uint16_t>(std::min(cpus, pipeline::kMaxWorkers)),
      .on_link_event = [&event = parts_.link_event] { event.raise(); },
      .wait_for_workers = [&qsbr = parts_.qsbr] { qsbr.wait(); },
      .io = &parts_.io,
      .reclaimer = &parts_.qsbr};
  const uint32_t mtu = spec.mtu.value_or(port::kDefaultMtu);
  const Result<rte_mempool*> pool = parts_.pools.for_mtu(mtu);
  if (!pool) return fail("{}: {}", spec.name, pool.error().message);
  config.pool = *pool;
  config.pool_on_node = [&pools = parts_.pools, mtu](int node) {
    return pools.for_mtu(mtu, node).value_or(nullptr);
  };
  if (spec.mac) {
    const std::optional<packet::MacAddress> mac = packet::parse_mac(*spec.mac);
    if (!mac)
      return fail("{}: '{}' is no MAC address; write xx:xx:xx:xx:xx:xx", spec.name, *spec.mac);
    config.mac = *mac;
  }
  Result<std::unique_ptr<port::Port>> device = port::open_port(config);
  if (!device) return tl::unexpected(device.error());

  auto port = std::make_unique<SwitchPort>();
  port->spec = spec;
  port->device = std::move(*device);
  port->offload = std::make_unique<port::SoftwareOffload>(*port->device);
  if (port->device->tx_offloads() != 0) port::SoftwareOffload::note_offloads();
  if (port->device->owner_group() != nullptr) {
    static unsigned serial = 0;  // port names may be longer than a ring's
    Result<std::unique_ptr<OwnerTx>> handed =
        OwnerTx::make(fmt::format("tx-{}", serial++), *port->offload);
    if (!handed) return tl::unexpected(handed.error());
    port->handed = std::move(*handed);
  } else if (!port->device->tx_is_concurrent()) {
    port->tx = std::make_unique<TxQueues>(*port->offload, port->device->n_tx_queues());
  }
  Result<std::unique_ptr<PortQueues>> queues = make_queues(spec.qos, port->unscheduled_io());
  if (!queues) return tl::unexpected(queues.error());
  port->tx_queues = std::move(*queues);
  for (uint16_t queue = 0; queue < port->device->n_rx_queues(); ++queue) {
    port->queues.push_back(std::make_unique<QueueCounters>());
  }
  port->link = port->device->link();
  return port;
}

Result<> SwitchLsi::add_port(const ovsdb::PortSpec& spec) {
  if (ports_.contains(spec.name)) return fail("{}: the port exists already", spec.name);
  if (spec.type == kPatch) {
    auto port = std::make_unique<SwitchPort>();
    port->spec = spec;
    const pipeline::PortSpec patch{.number = spec.number,
                                   .name = spec.name,
                                   .mac = packet::mac_from_name(spec.name),
                                   .vlans = spec.vlans};
    if (Result<> added = lsi_->add_patch(patch); !added) return added;
    ports_.emplace(spec.name, std::move(port));
    return {};
  }
  if (port::is_tunnel_type(spec.type)) return add_tunnel(spec);
  if (spec.type == kDefrag) return add_defragmenter(spec);
  Result<std::unique_ptr<SwitchPort>> opened = open_device(spec);
  if (!opened) return tl::unexpected(opened.error());
  SwitchPort& port = **opened;
  const pipeline::PortSpec added_spec{.number = spec.number,
                                      .name = spec.name,
                                      .mac = port.device->mac(),
                                      .io = &port.io(),
                                      .features = speed_feature(port.link.speed_bps),
                                      .speed_kbps = kilobits(port.link),
                                      .link_up = port.link.up,
                                      .io_knows_link = port.device->io_knows_link(),
                                      .vlans = spec.vlans};
  if (Result<> added = lsi_->add_port(added_spec); !added) return added;
  note_mtu(port);
  ports_.emplace(spec.name, std::move(*opened));
  return {};
}

bool SwitchLsi::set_fragments(pipeline::FragmentMode mode) {
  if (mode == lsi_->fragments()) return true;
  std::shared_ptr<pipeline::Defragmenter> defragmenter;
  if (mode == pipeline::FragmentMode::reassemble) {
    auto made = make_defragmenter();
    if (!made) {
      log::warn("{}: fragments: {}", config_.name, made.error().message);
      return false;
    }
    defragmenter = std::move(*made);
  }
  lsi_->set_fragments(mode, std::move(defragmenter));
  return true;
}

Result<> SwitchLsi::add_defragmenter(const ovsdb::PortSpec& spec) {
  if (!spec.options.empty()) {
    return fail("{}: type defrag has no option {}", spec.name, spec.options.begin()->first);
  }
  auto defragmenter = make_defragmenter();
  if (!defragmenter) return fail("{}: {}", spec.name, defragmenter.error().message);
  auto port = std::make_unique<SwitchPort>();
  port->spec = spec;
  const pipeline::PortSpec own{.number = spec.number,
                               .name = spec.name,
                               .mac = packet::mac_from_name(spec.name),
                               .vlans = spec.vlans};
  if (Result<> added = lsi_->add_defragmenter(own, std::move(*defragmenter)); !added) return added;
  ports_.emplace(spec.name, std::move(port));
  return {};
}

Result<> SwitchLsi::add_tunnel(const ovsdb::PortSpec& spec) {
  const port::PortConfig config{.name = spec.name, .type = spec.type, .options = spec.options};
  Result<port::TunnelOptions> options = port::read_tunnel_options(config);
  if (!options) return tl::unexpected(options.error());
  if (!pipeline::enable_tunnel_fields()) {
    return fail("{}: no room in packet buffers for a tunnel's fields", spec.name);
  }
  auto port = std::make_unique<SwitchPort>();
  port->spec = spec;
  port->tunnel = std::move(*options);
  const pipeline::PortSpec tunnel{.number = spec.number,
                                  .name = spec.name,
                                  .mac = packet::mac_from_name(spec.name),
                                  .vlans = spec.vlans};
  if (Result<> added = lsi_->add_tunnel(tunnel); !added) return added;
  ports_.emplace(spec.name, std::move(port));
  return {};
}

Result<bool> SwitchLsi::update_port(const ovsdb::PortSpec& spec) {
  const auto found = ports_.find(spec.name);
  if (found == ports_.end()) return fail("{}: there is no such port", spec.name);
  SwitchPort& port = *found->second;
  const bool is_device = port.spec.type != kPatch;  // a patch's peer is connect_patch()'s
  if (spec.number != port.spec.number ||
      (is_device && (spec.options != port.spec.options || spec.mac != port.spec.mac))) {
    return false;
  }
  if (spec.mtu != port.spec.mtu && port.device) {
    // A larger frame may need larger buffers, and those a new queue.
    const uint32_t mtu = spec.mtu.value_or(port::kDefaultMtu);
    const int node = port.device->numa_node();
    const Result<rte_mempool*> now =
        parts_.pools.for_mtu(port.spec.mtu.value_or(port::kDefaultMtu), node);
    const Result<rte_mempool*> then = parts_.pools.for_mtu(mtu, node);
    if (!then) return fail("{}: {}", spec.name, then.error().message);
    if (*now != *then) return false;
    if (Result<> set = port.device->set_mtu(mtu); !set) return tl::unexpected(set.error());
    note_mtu(port);
  }
  if (spec.qos != port.spec.qos && port.device) {
    auto queues = make_queues(spec.qos, port.unscheduled_io());
    if (!queues) return fail("{}: {}", spec.name, queues.error().message);
    port.old_tx_queues = std::exchange(port.tx_queues, std::move(*queues));
    lsi_->set_port_io(spec.number, port.io());
  }
  if (spec.vlans != port.spec.vlans) lsi_->set_port_vlans(spec.number, spec.vlans);
  port.spec = spec;
  return true;
}

void SwitchLsi::finish_update(std::string_view name) {
  const auto found = ports_.find(name);
  if (found == ports_.end() || !found->second->old_tx_queues) return;
  SwitchPort& port = *found->second;
  if (port.tx_queues) port.old_tx_queues->hand_over(*port.tx_queues);
  port.old_tx_dropped += port.old_tx_queues->dropped();
  port.old_tx_queues.reset();
}

std::unique_ptr<SwitchPort> SwitchLsi::remove_port(std::string_view name) {
  const auto found = ports_.find(name);
  if (found == ports_.end()) return nullptr;
  std::unique_ptr<SwitchPort> port = std::move(found->second);
  ports_.erase(found);
  if (Result<> removed = lsi_->remove_port(port->spec.number); !removed) {
    log::error("{}: {}", config_.name, removed.error().message);
  }
  return port;
}

void SwitchLsi::note_mtu(SwitchPort& port) {
  const uint32_t mtu = port.device->mtu();
  if (mtu == port.mtu) return;
  port.mtu = mtu;
  lsi_->set_port_mtu(port.spec.number, mtu);
}

bool SwitchLsi::poll_links() {
  bool changed = false;
  for (const auto& [name, port] : ports_) {
    if (!port->device) continue;
    const port::LinkState link = port->device->link();
    note_mtu(*port);  // a kernel interface's may be changed by others
    if (link.up == port->link.up && link.speed_bps == port->link.speed_bps) continue;
    if (link.up != port->link.up) {
      ++port->link_resets;
      log::info("{}: link {}", name, link.up ? "up" : "down");
    }
    port->link = link;
    lsi_->set_link(port->spec.number, link.up, kilobits(link));
    changed = true;
  }
  return changed;
}

const SwitchPort* SwitchLsi::find_port(std::string_view name) const {
  const auto found = ports_.find(name);
  return found == ports_.end() ? nullptr : found->second.get();
}

ovsdb::PortState SwitchLsi::port_state(const SwitchPort& port) const {
  ovsdb::PortState state;
  const std::optional<pipeline::PortDesc> desc = lsi_->port_desc(port.spec.number);
  state.admin_up = !desc || (desc->config & pipeline::kPortConfigDown) == 0;
  if (!port.device) {
    state.link_up = desc && (desc->state & pipeline::kPortStateLinkDown) == 0;
    state.mac = packet::format_mac(packet::mac_from_name(port.spec.name));
    state.status = port.tunnel_status;
    return state;
  }
  state.link_up = port.link.up;
  state.link_resets = port.link_resets;
  if (port.link.speed_bps > 0) state.link_speed_bps = port.link.speed_bps;
  state.full_duplex = port.link.full_duplex;
  state.mtu = port.mtu;
  state.mac = packet::format_mac(port.device->mac());
  state.ifindex = port.device->ifindex();
  state.status = port.device->status();
  return state;
}

std::map<std::string, int64_t> SwitchLsi::port_statistics(const SwitchPort& port) const {
  std::map<std::string, int64_t> statistics;
  if (port.device) statistics = port.device->statistics();
  const auto counted = lsi_->port_stats(port.spec.number);
  if (!counted || counted->empty()) return statistics;
  // The pipeline's counts are exact for every kind of device, so they are the ones to show; losses
  // before and after the pipeline add up.
  const pipeline::PortStats& stats = counted->front();
  const auto count = [](uint64_t value) { return static_cast<int64_t>(value); };
  statistics["rx_packets"] = count(stats.rx_packets);
  statistics["rx_bytes"] = count(stats.rx_bytes);
  statistics["tx_packets"] = count(stats.tx_packets);
  statistics["tx_bytes"] = count(stats.tx_bytes);
  statistics["rx_dropped"] += count(stats.rx_dropped);
  statistics["ovs_tx_mtu_exceeded_drops"] += count(stats.tx_mtu_exceeded);
  statistics["tx_dropped"] +=
      count(stats.tx_dropped + (port.offload ? port.offload->dropped() : 0) +
            (port.handed ? port.handed->dropped() : 0) +
            (port.tx_queues ? port.tx_queues->dropped() : 0) + port.old_tx_dropped);
  statistics.try_emplace("rx_errors", 0);
  statistics.try_emplace("tx_errors", 0);
  return statistics;
}

bool SwitchLsi::packet_out(pipeline::PortNo in_port,
                           std::unique_ptr<pipeline::ActionProgram> actions,
                           openflow::Bytes packet) {
  return packet_outs_.send(lsi_, in_port, std::move(actions), packet);
}

std::vector<openflow::QueueState> SwitchLsi::queues(pipeline::PortNo port_no) const {
  std::vector<openflow::QueueState> states;
  for (const auto& [name, port] : ports_) {
    if (port->spec.number != port_no || !port->tx_queues) continue;
    for (const PortQueues::Counts& counts : port->tx_queues->counts()) {
      openflow::QueueState state{.id = counts.id,
                                 .tx_packets = counts.packets,
                                 .tx_bytes = counts.bytes,
                                 .tx_errors = counts.errors};
      for (const pipeline::QueueConfig& spec : port->spec.qos->queues) {
        if (spec.id != counts.id) continue;
        state.min_rate_bps = spec.min_rate_bps;
        state.max_rate_bps = spec.max_rate_bps;
      }
      states.push_back(state);
    }
  }
  return states;
}

openflow::DeviceCounters SwitchLsi::device_counters(pipeline::PortNo port_no) const {
  openflow::DeviceCounters counters;
  for (const auto& [name, port] : ports_) {
    if (port->spec.number != port_no || !port->device) continue;
    const auto statistics = port->device->statistics();
    const auto value = [&](const char* key) {
      const auto found = statistics.find(key);
      return found == statistics.end() ? 0 : static_cast<uint64_t>(found->second);
    };
    counters.rx_dropped = value("rx_dropped");
    counters.rx_errors = value("rx_errors");
    counters.tx_errors = value("tx_errors");
  }
  return counters;
}

}  // namespace headrace::runtime
