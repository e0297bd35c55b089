// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/switch.h"

#include <rte_version.h>

#include <algorithm>
#include <asio/post.hpp>
#include <chrono>

#include "base/log.h"
#include "base/version.h"
#include "packet/copy_pool.h"
#include "port/port.h"

namespace headrace::runtime {

namespace {

/// Timeouts of flows, links of ports, packet-outs that are done.
constexpr std::chrono::milliseconds kHousekeeping{200};
/// Between attempts to reclaim, while something waits for a grace period.
constexpr std::chrono::milliseconds kReclaim{1};
/// Packets for controllers that are read before other control work has its turn, per worker.
constexpr unsigned kPuntsPerTurn = 64;

}  // namespace

Result<std::unique_ptr<Switch>> Switch::make(asio::io_context& io, SwitchOptions options) {
  Result<BufferPools> pools = BufferPools::make(options.memory_mb);
  if (!pools) return tl::unexpected(pools.error());
  packet::set_pool_of_copies(*pools->for_mtu(port::kDefaultMtu));
  Result<std::unique_ptr<WakeUp>> wake_up = WakeUp::make();
  if (!wake_up) return tl::unexpected(wake_up.error());
  Result<std::unique_ptr<WakeUp>> link_event = WakeUp::make();
  if (!link_event) return tl::unexpected(link_event.error());
  Result<std::unique_ptr<KernelNetwork>> kernel = KernelNetwork::make();
  if (!kernel) return tl::unexpected(kernel.error());
  std::unique_ptr<Switch> made(new Switch(io, std::move(options), std::move(*pools),
                                          std::move(*wake_up), std::move(*link_event),
                                          std::move(*kernel)));
  if (Result<> started = made->set_workers({}); !started) return tl::unexpected(started.error());
  return made;
}

Switch::Switch(asio::io_context& io, SwitchOptions options, BufferPools pools,
               std::unique_ptr<WakeUp> wake_up, std::unique_ptr<WakeUp> link_event,
               std::unique_ptr<KernelNetwork> kernel)
    : io_(io),
      builder_(io),
      options_(std::move(options)),
      pools_(std::move(pools)),
      wake_up_(std::move(wake_up)),
      link_event_(std::move(link_event)),
      workers_(qsbr_, *wake_up_),
      kernel_(std::move(kernel)),
      punt_event_(io, wake_up_->fd()),
      link_event_fd_(io, link_event_->fd()),
      kernel_event_(io, kernel_->fd()),
      housekeeping_(io),
      reclaim_(io) {
  tls_.set_files(options_.tls);
  qsbr_.on_pending([this] { schedule_reclaim(); });
  wait_for_punts();
  wait_for_link_events();
  wait_for_kernel_events();
  schedule_housekeeping();
}

Switch::~Switch() {
  // The descriptors are wake_up_'s, link_event_'s and kernel_'s.
  punt_event_.release();
  link_event_fd_.release();
  kernel_event_.release();
  clear();
  qsbr_.on_pending(nullptr);
}

void Switch::clear() {
  for (const auto& [lsi_name, lsi] : lsis_) {
    for (const auto& [name, port] : lsi->ports()) {
      if (port->device) port->device->keep_device();
    }
  }
  while (!lsis_.empty()) destroy_lsi(std::string(lsis_.begin()->first));
}

ovsdb::SwitchInfo Switch::info() const {
  ovsdb::SwitchInfo info{.version = fmt::format("headrace {}", kVersion),
                         .dpdk_version = rte_version(),
                         .dpdk_initialized = true,
                         .port_types = {"patch"}};
  for (const std::string_view type : port::port_types()) info.port_types.emplace_back(type);
  for (const char* type : {"vxlan", "gre", "gtpu", "defrag"}) info.port_types.emplace_back(type);
  return info;
}

Result<> Switch::set_workers(const ovsdb::WorkerConfig& config) {
  workers_.set_max_sleep(config.max_sleep_us);
  workers_.set_policy(parse_assign_policy(config.rxq_assign).value_or(AssignPolicy::cycles));
  workers_.set_auto_load_balance({.enabled = config.auto_lb,
                                  .interval_minutes = config.auto_lb_interval_minutes,
                                  .load_threshold = config.auto_lb_load_threshold,
                                  .improvement_threshold = config.auto_lb_improvement_threshold});
  return workers_.set_cpus(config.cpus.value_or(options_.default_cpus));
}

void Switch::set_stage_timing(bool on) {
  workers_.set_stage_timing(on);
  qsbr_.defer([] {});
  qsbr_.drain();
}

SwitchLsi* Switch::find(std::string_view lsi) const {
  const auto found = lsis_.find(lsi);
  return found == lsis_.end() ? nullptr : found->second.get();
}

Result<> Switch::create_lsi(const ovsdb::LsiConfig& config) {
  if (lsis_.contains(config.name)) return fail("{}: the bridge exists already", config.name);
  Result<std::unique_ptr<SwitchLsi>> lsi = SwitchLsi::make(
      {io_, qsbr_, workers_, pools_, backlog_, tls_, options_.rundir, *link_event_, builder_},
      next_id_, config);
  if (!lsi) return tl::unexpected(lsi.error());
  ++next_id_;
  (*lsi)->lsi().watch_paths(&links_);
  lsis_.emplace(config.name, std::move(*lsi));
  log::info("bridge {} made, datapath id {:016x}", config.name, config.datapath_id);
  return {};
}

Result<> Switch::update_lsi(const ovsdb::LsiConfig& config) {
  SwitchLsi* lsi = find(config.name);
  if (lsi == nullptr) return fail("{}: there is no such bridge", config.name);
  lsi->update(config);
  return {};
}

void Switch::destroy_lsi(std::string_view name) {
  const auto found = lsis_.find(name);
  if (found == lsis_.end()) return;
  const std::unique_ptr<SwitchLsi> lsi = std::move(found->second);
  lsis_.erase(found);  // no longer polled after publish_queues()
  tunnels_.refresh();  // none leads into it any more
  for (const auto& [port_name, port] : lsi->ports()) links_.forget(*port);
  links_.forget(lsi->lsi());
  std::vector<std::unique_ptr<SwitchPort>> ports;
  while (!lsi->ports().empty()) {
    ports.push_back(lsi->remove_port(std::string(lsi->ports().begin()->first)));
  }
  publish_queues();
  qsbr_.drain();
  log::info("bridge {} removed", name);
}

Result<> Switch::add_port(std::string_view lsi_name, const ovsdb::PortSpec& spec) {
  SwitchLsi* lsi = find(lsi_name);
  if (lsi == nullptr) return fail("{}: there is no bridge {}", spec.name, lsi_name);
  if (Result<> added = lsi->add_port(spec); !added) {
    log::warn("{}", added.error().message);
    return added;
  }
  publish_queues();
  tunnels_.refresh();
  log::info("port {} ({}) added to {} as {}", spec.name, spec.type, lsi_name, spec.number);
  return {};
}

Result<bool> Switch::update_port(std::string_view lsi_name, const ovsdb::PortSpec& spec) {
  SwitchLsi* lsi = find(lsi_name);
  if (lsi == nullptr) return fail("{}: there is no bridge {}", spec.name, lsi_name);
  Result<bool> updated = lsi->update_port(spec);
  if (updated && *updated) {
    publish_queues();  // an affinity may have changed
    links_.changed();  // or queues
    const SwitchPort* port = lsi->find_port(spec.name);
    if (port != nullptr && port->old_tx_queues) {
      qsbr_.drain();
      lsi->finish_update(spec.name);
    }
  }
  return updated;
}

void Switch::remove_port(std::string_view lsi_name, std::string_view name) {
  SwitchLsi* lsi = find(lsi_name);
  if (lsi == nullptr) return;
  if (const SwitchPort* going = lsi->find_port(name)) links_.forget(*going);
  const std::unique_ptr<SwitchPort> port = lsi->remove_port(name);
  if (!port) return;
  publish_queues();
  tunnels_.refresh();
  // The same device may be added again at once, so it is removed now, not a grace period later.
  qsbr_.drain();
  log::info("port {} removed from {}", name, lsi_name);
}

Result<> Switch::connect_patch(std::string_view lsi_a, std::string_view port_a,
                               std::string_view lsi_b, std::string_view port_b) {
  SwitchLsi* a = find(lsi_a);
  SwitchLsi* b = find(lsi_b);
  const SwitchPort* end_a = a == nullptr ? nullptr : a->find_port(port_a);
  const SwitchPort* end_b = b == nullptr ? nullptr : b->find_port(port_b);
  if (end_a == nullptr || end_b == nullptr) {
    return fail("{} and {}: one of them does not exist", port_a, port_b);
  }
  return pipeline::Lsi::connect(a->lsi(), end_a->spec.number, b->lsi(), end_b->spec.number);
}

void Switch::disconnect_patch(std::string_view lsi_name, std::string_view port_name) {
  SwitchLsi* lsi = find(lsi_name);
  const SwitchPort* port = lsi == nullptr ? nullptr : lsi->find_port(port_name);
  if (port != nullptr) lsi->lsi().disconnect(port->spec.number);
}

void Switch::set_controllers(std::string_view lsi_name,
                             const std::vector<ovsdb::ControllerSpec>& controllers) {
  if (SwitchLsi* lsi = find(lsi_name)) lsi->set_controllers(controllers);
}

Result<> Switch::set_mirrors(std::string_view lsi_name,
                             const std::vector<pipeline::MirrorConfig>& mirrors) {
  SwitchLsi* lsi = find(lsi_name);
  if (lsi == nullptr) return fail("there is no bridge {}", lsi_name);
  return lsi->lsi().set_mirrors(mirrors);
}

std::map<std::string, pipeline::MirrorStats> Switch::mirror_statistics(
    std::string_view lsi_name) const {
  const SwitchLsi* lsi = find(lsi_name);
  return lsi == nullptr ? std::map<std::string, pipeline::MirrorStats>{}
                        : lsi->lsi().mirror_stats();
}

ovsdb::PortState Switch::port_state(std::string_view lsi_name, std::string_view name) const {
  const SwitchLsi* lsi = find(lsi_name);
  const SwitchPort* port = lsi == nullptr ? nullptr : lsi->find_port(name);
  if (port == nullptr) return {};
  ovsdb::PortState state = lsi->port_state(*port);
  const std::vector<unsigned> cpus = workers_.cpus();
  for (const auto& [queue, cpu] : port->spec.rxq_affinity) {
    if (queue >= port->queues.size()) {
      state.notes.push_back(
          fmt::format("other_config:pmd-rxq-affinity: there is no queue {}; the port has {}", queue,
                      port->queues.size()));
    } else if (std::find(cpus.begin(), cpus.end(), cpu) == cpus.end()) {
      state.notes.push_back(fmt::format(
          "other_config:pmd-rxq-affinity: no worker runs on CPU {}, so queue {} is not polled; "
          "add the CPU to pmd-cpu-mask or choose another one",
          cpu, queue));
    }
  }
  return state;
}

std::map<std::string, int64_t> Switch::port_statistics(std::string_view lsi_name,
                                                       std::string_view name) const {
  const SwitchLsi* lsi = find(lsi_name);
  const SwitchPort* port = lsi == nullptr ? nullptr : lsi->find_port(name);
  return port == nullptr ? std::map<std::string, int64_t>{} : lsi->port_statistics(*port);
}

std::map<std::string, ovsdb::ControllerState> Switch::controller_states(
    std::string_view lsi_name) const {
  const SwitchLsi* lsi = find(lsi_name);
  return lsi == nullptr ? std::map<std::string, ovsdb::ControllerState>{}
                        : lsi->controller_states();
}

void Switch::publish_queues() {
  QueueSet queues;
  for (const auto& [lsi_name, lsi] : lsis_) {
    for (const auto& [name, port] : lsi->ports()) {
      if (!port->device) continue;
      const void* group = port->device->owner_group();
      const int node = port->device->numa_node();
      if (port->tx) queues.tx.push_back(port->tx.get());
      if (port->handed) queues.handed.push_back({port->handed.get(), group});
      if (port->tx_queues) queues.scheduled.push_back({port->tx_queues.get(), group, node});
      for (uint16_t queue = 0; queue < port->queues.size(); ++queue) {
        const auto affinity = port->spec.rxq_affinity.find(queue);
        queues.rx.push_back({.entry = {.io = &port->device->io(),
                                       .queue = queue,
                                       .in_port = port->spec.number,
                                       .lsi = &lsi->lsi(),
                                       .counters = port->queues[queue].get()},
                             .port = name,
                             .affinity = affinity == port->spec.rxq_affinity.end()
                                             ? std::nullopt
                                             : std::optional<unsigned>(affinity->second),
                             .group = group,
                             .node = node});
      }
    }
  }
  workers_.set_queues(std::move(queues));
}

void Switch::wait_for_punts() {
  punt_event_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this](const asio::error_code& error) {
                           if (error) return;  // the switch is going
                           wake_up_->lower();
                           read_punts();
                           wait_for_punts();
                         });
}

void Switch::read_punts() {
  const auto take = [this](const pipeline::PuntInfo& info, std::span<const uint8_t> packet) {
    if (info.reason == pipeline::PuntReason::underlay) {
      tunnels_.punted(info, packet);
      return;
    }
    for (const auto& [name, lsi] : lsis_) {
      if (lsi->id() == info.lsi_id) lsi->agent().packet_in(info, packet);
    }
  };
  bool more = false;
  for (const auto& worker : workers_.workers()) {
    more |= worker->punts().read(kPuntsPerTurn, take) == kPuntsPerTurn;
  }
  // Other control work first; a flood of packets for a controller must not starve it.
  if (more) wake_up_->raise();
}

void Switch::wait_for_link_events() {
  link_event_fd_.async_wait(asio::posix::stream_descriptor::wait_read,
                            [this](const asio::error_code& error) {
                              if (error) return;  // the switch is going
                              link_event_->lower();
                              poll_links();
                              wait_for_link_events();
                            });
}

void Switch::wait_for_kernel_events() {
  kernel_event_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [this](const asio::error_code& error) {
                             if (error) return;  // the switch is going
                             if (kernel_->read()) tunnels_.kernel_changed();
                             // What is sent by a port whose link was down is dropped until then.
                             if (kernel_->links_changed()) poll_links();
                             wait_for_kernel_events();
                           });
}

void Switch::poll_links() {
  bool changed = false;
  for (const auto& [name, lsi] : lsis_) changed |= lsi->poll_links();
  if (changed && status_changed_) status_changed_();
}

void Switch::schedule_housekeeping() {
  housekeeping_.expires_after(kHousekeeping);
  housekeeping_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    for (const auto& [name, lsi] : lsis_) {
      lsi->lsi().expire();
      lsi->watch_controllers();
    }
    links_.account();  // often enough that positions of rings do not wrap unseen
    poll_links();
    tunnels_.tick();
    workers_.tick(rte_rdtsc());
    for (const auto& worker : workers_.workers()) worker->packet_outs().reap();
    schedule_housekeeping();
  });
}

void Switch::schedule_reclaim() {
  if (reclaim_scheduled_) return;
  reclaim_scheduled_ = true;
  reclaim_.expires_after(kReclaim);
  reclaim_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    reclaim_scheduled_ = false;
    if (qsbr_.reclaim() > 0) schedule_reclaim();
  });
}

}  // namespace headrace::runtime
