// SPDX-License-Identifier: Apache-2.0
#include "pipeline/control/port_table.h"

#include <mutex>

#include "pipeline/execute/defragmenter.h"
#include "pipeline/execute/egress_mtu.h"
#include "pipeline/execute/tunnel_port.h"
#include "pipeline/program/mirror.h"
#include "pipeline/program/receive_feature.h"
#include "pipeline/terms/of_errors.h"

namespace headrace::pipeline {
namespace {

/// Gives each port of the process a number of its own: executors index their buffers by it.
class EgressNumbers {
 public:
  std::optional<uint32_t> take() {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      const uint32_t number = free_.back();
      free_.pop_back();
      return number;
    }
    if (used_ == kMaxEgress) return std::nullopt;
    return used_++;
  }
  void give_back(uint32_t number) {
    const std::lock_guard lock(mutex_);
    free_.push_back(number);
  }

 private:
  std::mutex mutex_;
  uint32_t used_{0};
  std::vector<uint32_t> free_;
};

EgressNumbers& egress_numbers() {
  static EgressNumbers numbers;
  return numbers;
}

/// A published port; its egress number is free again when it is gone.
std::shared_ptr<Port> make_port(uint32_t egress) {
  return std::shared_ptr<Port>(new Port, [egress](Port* port) {
    delete port;
    egress_numbers().give_back(egress);
  });
}

std::shared_ptr<const void> set_vlans(Port& port, const std::optional<PortVlans>& vlans) {
  auto owner = vlans ? std::make_shared<const PortVlans>(*vlans) : nullptr;
  port.vlans.store(owner.get(), std::memory_order_release);
  return std::exchange(port.vlans_owner, std::move(owner));
}

constexpr uint32_t kConfigurable =
    kPortConfigDown | kPortConfigNoReceive | kPortConfigNoForward | kPortConfigNoPacketIn;

}  // namespace

Duration to_duration(uint64_t cycles, uint64_t hz) {
  if (hz == 0) return {};
  const uint64_t seconds = cycles / hz;
  const auto rest = static_cast<unsigned __int128>(cycles % hz) * 1'000'000'000u / hz;
  return {static_cast<uint32_t>(seconds), static_cast<uint32_t>(rest)};
}

PortTable::~PortTable() = default;

PortHandle* PortTable::handle(PortNo number) {
  std::unique_ptr<PortHandle>& handle = handles_[number];
  if (handle == nullptr) {
    handle = std::make_unique<PortHandle>();
    handle->number = number;
  }
  return handle.get();
}

void PortTable::refresh(Entry& entry) {
  const uint32_t config = entry.desc.config;
  const bool down = (config & kPortConfigDown) != 0;
  const bool link = (entry.desc.state & kPortStateLinkDown) == 0;
  Port& port = *entry.port;
  // Where tunnels end, packets are for more than the device.
  const bool reachable = link || entry.io_knows_link || port.ingress_owner != nullptr;
  const bool refused = down || !reachable;
  const DropReason exclusive = entry.is_mirror_output ? DropReason::mirror_port : DropReason::none;
  port.send_refusal.store(refused                                ? DropReason::port_down
                          : (config & kPortConfigNoForward) != 0 ? DropReason::port_no_forward
                                                                 : exclusive,
                          std::memory_order_relaxed);
  port.receive_refusal.store(
      down || (config & kPortConfigNoReceive) != 0 ? DropReason::port_no_receive : exclusive,
      std::memory_order_relaxed);
  const PortMirrors* mirrors = port.mirrors_owner.get();
  port.tx_hook.store(mirrors != nullptr && !mirrors->sent.empty()          ? TxHook::mirror
                     : port.io == nullptr || port.ingress_owner != nullptr ? TxHook::patch
                                                                           : TxHook::none,
                     std::memory_order_release);
  const unsigned features = (port.is_tunnel ? unsigned{kReceiveTunnelFields} : 0u) |
                            (mirrors != nullptr ? unsigned{kReceiveMirror} : 0u);
  port.receive_features.store(static_cast<uint8_t>(features), std::memory_order_release);
  port.packet_in.store((config & kPortConfigNoPacketIn) == 0, std::memory_order_relaxed);
  port.live.store(!down && link, std::memory_order_relaxed);
  entry.desc.state = (entry.desc.state & ~kPortStateLive) | (!down && link ? kPortStateLive : 0);
}

Result<> PortTable::add(const PortSpec& spec, bool patch, uint64_t now) {
  if (spec.number == 0 || (spec.number > kPortMax && spec.number != kPortLocal)) {
    return fail("port {}: number {} is reserved; ask for 1..{}", spec.name, spec.number, kPortMax);
  }
  if (ports_.contains(spec.number)) {
    return fail("port {}: number {} is taken by {}", spec.name, spec.number,
                ports_[spec.number].desc.name);
  }
  if (patch != (spec.io == nullptr)) {
    return fail("port {}: a port has a data path unless it is a patch", spec.name);
  }
  const std::optional<uint32_t> egress = egress_numbers().take();
  if (!egress) return fail("port {}: the switch has all {} ports it can", spec.name, kMaxEgress);

  Entry entry;
  entry.port = make_port(*egress);
  entry.port->number = spec.number;
  entry.port->egress = *egress;
  entry.port->io = spec.io;
  entry.port->is_tunnel = spec.tunnel;
  pipeline::set_vlans(*entry.port, spec.vlans);
  entry.patch = patch;
  entry.io_knows_link = spec.io_knows_link;
  entry.created = now;
  entry.desc = PortDesc{.number = spec.number,
                        .name = spec.name,
                        .mac = spec.mac,
                        .state = spec.link_up ? 0 : kPortStateLinkDown,
                        .current = spec.features,
                        .advertised = 0,
                        .supported = spec.features,
                        .current_speed = spec.speed_kbps,
                        .max_speed = spec.speed_kbps};
  refresh(entry);
  handle(spec.number)->port.store(entry.port.get(), std::memory_order_release);
  ports_.emplace(spec.number, std::move(entry));
  return {};
}

Result<> PortTable::remove(PortNo number, std::shared_ptr<const Port>& gone) {
  const auto found = ports_.find(number);
  if (found == ports_.end()) return fail("port {}: not there", number);
  handle(number)->port.store(nullptr, std::memory_order_release);
  gone = std::move(found->second.port);
  ports_.erase(found);
  return {};
}

void PortTable::set_io(PortNo number, PortIo& io) {
  const auto found = ports_.find(number);
  if (found == ports_.end() || found->second.port->io == nullptr) return;
  found->second.port->io.store(&io, std::memory_order_release);
}

void PortTable::set_mtu(PortNo number, uint32_t mtu) {
  const auto found = ports_.find(number);
  if (found == ports_.end()) return;
  found->second.port->max_frame.store(mtu == 0 ? UINT32_MAX : mtu + kMtuOverhead,
                                      std::memory_order_relaxed);
}

Result<> PortTable::set_peer(PortNo number, Lsi* peer, PortNo peer_port) {
  const auto found = ports_.find(number);
  if (found == ports_.end() || !found->second.patch) {
    return fail("port {}: not a patch port", number);
  }
  found->second.peer = peer;
  found->second.port->peer_port.store(peer_port, std::memory_order_relaxed);
  found->second.port->peer.store(peer, std::memory_order_release);
  return {};
}

std::shared_ptr<const void> PortTable::set_tunnel(PortNo number,
                                                  std::shared_ptr<const TunnelEgress> egress,
                                                  Lsi* underlay) {
  const auto found = ports_.find(number);
  if (found == ports_.end() || !found->second.port->is_tunnel) return nullptr;
  Port& port = *found->second.port;
  port.peer_port.store(kPortLocal, std::memory_order_relaxed);
  port.peer.store(underlay, std::memory_order_release);
  port.egress_tunnel.store(egress.get(), std::memory_order_release);
  return std::exchange(port.egress_owner, std::move(egress));
}

Result<std::shared_ptr<const void>> PortTable::set_ingress_tunnels(
    PortNo number, std::shared_ptr<const TunnelIngress> tunnels) {
  const auto found = ports_.find(number);
  if (found == ports_.end() || found->second.port->io == nullptr) {
    return fail("port {}: has no device that tunnels could end before", number);
  }
  Port& port = *found->second.port;
  port.ingress_tunnels.store(tunnels.get(), std::memory_order_release);
  std::shared_ptr<const void> old = std::exchange(port.ingress_owner, std::move(tunnels));
  refresh(found->second);
  return old;
}

Result<> PortTable::set_defragmenter(PortNo number, std::shared_ptr<Defragmenter> defragmenter,
                                     Lsi* own) {
  const auto found = ports_.find(number);
  if (found == ports_.end()) return fail("port {}: not there", number);
  found->second.port->defragmenter = std::move(defragmenter);
  // Workers reach the port through its peer: what was written before is seen with it.
  return set_peer(number, own, number);
}

std::shared_ptr<const void> PortTable::set_vlans(PortNo number,
                                                 const std::optional<PortVlans>& vlans) {
  const auto found = ports_.find(number);
  return found == ports_.end() ? nullptr : pipeline::set_vlans(*found->second.port, vlans);
}

std::shared_ptr<const void> PortTable::set_mirrors(PortNo number, MirrorRole role) {
  const auto found = ports_.find(number);
  if (found == ports_.end()) return nullptr;
  Entry& entry = found->second;
  Port& port = *entry.port;
  port.mirrors.store(role.mirrors.get(), std::memory_order_release);
  std::shared_ptr<const void> old = std::exchange(port.mirrors_owner, std::move(role.mirrors));
  entry.is_mirror_output = role.is_output;
  entry.gets_copies = role.gets_copies;
  refresh(entry);
  return old;
}

const PortVlans* PortTable::vlans(PortNo number) const {
  const auto found = ports_.find(number);
  return found == ports_.end() ? nullptr : found->second.port->vlans_owner.get();
}

std::vector<PortNo> PortTable::numbers() const {
  std::vector<PortNo> all;
  for (const auto& [number, entry] : ports_) all.push_back(number);
  return all;
}

std::pair<Lsi*, PortNo> PortTable::peer(PortNo number) const {
  const auto found = ports_.find(number);
  if (found == ports_.end()) return {nullptr, 0};
  return {found->second.peer, found->second.port->peer_port.load(std::memory_order_relaxed)};
}

void PortTable::account(PortNo in, PortNo out, uint64_t packets, uint64_t octets) {
  if (const auto found = ports_.find(in); found != ports_.end()) {
    found->second.accounted.rx_packets += packets;
    found->second.accounted.rx_bytes += octets;
  }
  if (const auto found = ports_.find(out); found != ports_.end()) {
    found->second.accounted.tx_packets += packets;
    found->second.accounted.tx_bytes += octets;
  }
}

PortEnd PortTable::end(PortNo number) const {
  const auto found = ports_.find(number);
  if (found == ports_.end()) return {};
  const Entry& entry = found->second;
  const Port& port = *entry.port;
  const PortMirrors* mirrors = port.mirrors_owner.get();
  return {
      .name = entry.desc.name,
      .receives = (entry.desc.config & (kPortConfigDown | kPortConfigNoReceive)) == 0,
      .sends = (entry.desc.config & (kPortConfigDown | kPortConfigNoForward)) == 0,
      .device = port.io != nullptr,
      .changes = port.is_tunnel || port.defragmenter != nullptr || port.ingress_owner != nullptr,
      .mirrored_received = mirrors != nullptr && !mirrors->received.empty(),
      .mirrored_sent = mirrors != nullptr && !mirrors->sent.empty(),
      .is_mirror_output = entry.is_mirror_output,
      .gets_copies = entry.gets_copies,
      .peer = entry.peer,
      .peer_port = port.peer_port.load(std::memory_order_relaxed)};
}

bool PortTable::set_link(PortNo number, bool up, uint32_t speed_kbps) {
  const auto found = ports_.find(number);
  if (found == ports_.end()) return false;
  Entry& entry = found->second;
  const uint32_t before = entry.desc.state;
  const uint32_t speed_before = entry.desc.current_speed;
  entry.desc.state = (before & ~kPortStateLinkDown) | (up ? 0 : kPortStateLinkDown);
  entry.desc.current_speed = speed_kbps;
  refresh(entry);
  return entry.desc.state != before || speed_before != speed_kbps;
}

OfResult<> PortTable::check(const PortMod& mod) const {
  const auto found = ports_.find(mod.port);
  if (found == ports_.end()) return tl::unexpected(of_error::kPortModBadPort);
  if ((mod.mask & ~kConfigurable) != 0) return tl::unexpected(of_error::kPortModBadConfig);
  if (mod.mac != found->second.desc.mac) return tl::unexpected(of_error::kPortModBadHwAddr);
  return {};
}

OfResult<> PortTable::configure(const PortMod& mod) {
  if (OfResult<> checked = check(mod); !checked) return checked;
  Entry& entry = ports_.at(mod.port);
  entry.desc.config = (entry.desc.config & ~mod.mask) | (mod.config & mod.mask);
  refresh(entry);
  return {};
}

std::optional<PortDesc> PortTable::desc(PortNo number) const {
  const auto found = ports_.find(number);
  if (found == ports_.end()) return std::nullopt;
  return found->second.desc;
}

std::vector<PortDesc> PortTable::descs() const {
  std::vector<PortDesc> all;
  for (const auto& [number, entry] : ports_) all.push_back(entry.desc);
  return all;
}

OfResult<std::vector<PortStats>> PortTable::stats(PortNo number, uint64_t now, uint64_t hz) const {
  if (number != kPortAny && !ports_.contains(number)) {
    return tl::unexpected(of_error::kBadRequestBadPort);
  }
  std::vector<PortStats> all;
  for (const auto& [port_number, entry] : ports_) {
    if (number != kPortAny && number != port_number) continue;
    PortStats stats;
    stats.number = port_number;
    stats.duration = to_duration(now - entry.created, hz);
    stats.rx_packets = entry.accounted.rx_packets;
    stats.rx_bytes = entry.accounted.rx_bytes;
    stats.tx_packets = entry.accounted.tx_packets;
    stats.tx_bytes = entry.accounted.tx_bytes;
    for (unsigned worker = 0; worker < kMaxWorkers; ++worker) {
      const PortCounts& counts = entry.port->counts[worker];
      stats.rx_packets += read(counts.rx_packets);
      stats.rx_bytes += read(counts.rx_bytes);
      stats.tx_packets += read(counts.tx_packets);
      stats.tx_bytes += read(counts.tx_bytes);
      stats.rx_dropped += read(counts.rx_dropped);
      stats.tx_dropped += read(counts.tx_dropped);
      stats.tx_mtu_exceeded += read(counts.tx_mtu_exceeded);
    }
    all.push_back(stats);
  }
  return all;
}

std::vector<const Port*> PortTable::published() const {
  std::vector<const Port*> all;
  for (const auto& [number, entry] : ports_) all.push_back(entry.port.get());
  return all;
}

}  // namespace headrace::pipeline
