// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/tunnels.h"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <cstring>

#include "base/log.h"
#include "packet/bytes.h"
#include "pipeline/program/action_program.h"

namespace headrace::runtime {
namespace {

using port::IpAddress;
using port::TunnelOptions;

/// Tunnel ports with `remote_ip=flow` remember this many far ends.
constexpr size_t kMaxFlowRemotes = 65536;

/// An address of a kernel interface with its subnet.
struct KernelAddress {
  std::string interface;
  IpAddress address;
  packet::TunnelAddress mask{};

  /// True if `other` is in its subnet.
  [[nodiscard]] bool is_near(const IpAddress& other) const {
    if (other.ipv6 != address.ipv6) return false;
    for (size_t i = 0; i < mask.size(); ++i) {
      if (((other.octets[i] ^ address.octets[i]) & mask[i]) != 0) return false;
    }
    return true;
  }
  [[nodiscard]] bool is_link_local() const {
    return address.ipv6 && address.octets[0] == 0xfe && (address.octets[1] & 0xc0) == 0x80;
  }
};

std::vector<KernelAddress> kernel_addresses() {
  std::vector<KernelAddress> all;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return all;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_name == nullptr) continue;
    KernelAddress found{.interface = each->ifa_name, .address = {}};
    if (each->ifa_addr->sa_family == AF_INET) {
      const auto* in = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
      const auto* mask = reinterpret_cast<const sockaddr_in*>(each->ifa_netmask);
      std::memcpy(found.address.octets.data(), &in->sin_addr, 4);
      packet::store_raw32(found.mask.data(), mask == nullptr ? ~0u : mask->sin_addr.s_addr);
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      const auto* in = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr);
      const auto* mask = reinterpret_cast<const sockaddr_in6*>(each->ifa_netmask);
      std::memcpy(found.address.octets.data(), &in->sin6_addr, 16);
      found.address.ipv6 = true;
      found.mask.fill(0xff);
      if (mask != nullptr) std::memcpy(found.mask.data(), &mask->sin6_addr, 16);
    } else {
      continue;
    }
    all.push_back(std::move(found));
  }
  freeifaddrs(list);
  return all;
}

/// The next hop towards the far end, if it is the same for all packets.
std::optional<IpAddress> next_hop(const TunnelOptions& options) {
  return options.gateway ? options.gateway : options.remote;
}

}  // namespace

SwitchLsi* Tunnels::by_id(uint32_t id) const {
  for (const auto& [name, lsi] : lsis_) {
    if (lsi->id() == id) return lsi.get();
  }
  return nullptr;
}

Tunnels::Route Tunnels::route_of(SwitchLsi& own, const TunnelOptions& options) const {
  Route route;
  route.local = options.local;
  const auto use = [&](SwitchLsi& lsi) {
    const auto local = lsi.lsi().port_desc(pipeline::kPortLocal);
    if (!local) return;  // it has no port of its own where tunnels could end
    route.underlay = &lsi;
    route.mac = local->mac;
  };
  if (!options.underlay.empty()) {
    const auto named = lsis_.find(options.underlay);
    if (named != lsis_.end()) use(*named->second);
  }
  const std::optional<IpAddress> hop = next_hop(options);
  for (const KernelAddress& have : kernel_addresses()) {
    const auto bridge = lsis_.find(have.interface);
    if (bridge == lsis_.end() || have.address.ipv6 != options.spec.ipv6) continue;
    const bool near = hop && have.is_near(*hop);
    const bool ours = options.local == have.address;
    const bool named = options.underlay == have.interface && !have.is_link_local();
    if (!(ours || (!options.local && (near || named)))) continue;
    if (options.underlay.empty() && route.underlay == nullptr) use(*bridge->second);
    if (!route.local && route.underlay == bridge->second.get()) route.local = have.address;
  }
  if (route.underlay == nullptr && options.underlay.empty() && options.local) use(own);
  return route;
}

std::optional<packet::TunnelSpec> Tunnels::spec_for(const TunnelOptions& options,
                                                    const Route& route,
                                                    const packet::TunnelAddress& remote) {
  if (route.underlay == nullptr || !route.local) return std::nullopt;
  packet::TunnelSpec spec = options.spec;
  spec.local = route.local->octets;
  spec.remote = remote;
  spec.src_mac = route.mac;
  if (options.remote_mac) {
    spec.dst_mac = *options.remote_mac;
    return spec;
  }
  const IpAddress hop =
      options.gateway.value_or(IpAddress{.octets = remote, .ipv6 = options.spec.ipv6});
  ask(*route.underlay, route, hop);
  const auto mac = neighbors_.find(route.underlay->id(), hop);
  if (!mac) return std::nullopt;
  spec.dst_mac = *mac;
  return spec;
}

void Tunnels::ask(SwitchLsi& underlay, const Route& route, const IpAddress& next_hop) {
  if (!neighbors_.should_ask(underlay.id(), next_hop, Neighbors::Clock::now())) return;
  auto through = underlay.lsi().compile({pipeline::OutputAction{.port = pipeline::kPortTable}});
  if (!through) return;
  const std::vector<uint8_t> request = neighbor_request(route.mac, *route.local, next_hop);
  if (!underlay.packet_out(pipeline::kPortLocal, std::move(*through), request)) {
    log::warn("{}: a request for a neighbour could not be sent", underlay.config().name);
  }
}

void Tunnels::publish_egress(SwitchLsi& lsi, SwitchPort& port, const Route& route, bool all) {
  const TunnelOptions& options = *port.tunnel;
  Published next{.route = route, .remotes = {}};
  if (options.remote) {
    if (auto spec = spec_for(options, route, options.remote->octets)) next.remotes[0] = *spec;
  } else {
    for (const RawIpv4 remote : flow_remotes_[port.spec.name]) {
      packet::TunnelAddress address{};
      packet::store_raw32(address.data(), remote);
      if (auto spec = spec_for(options, route, address)) next.remotes[remote] = *spec;
    }
  }
  Published& now = published_[port.spec.name];
  if (!all && now == next) return;
  auto egress = std::make_shared<pipeline::TunnelEgress>();
  egress->remote_from_flow = !options.remote;
  egress->id_from_flow = !options.out_key;
  egress->local_from_flow = options.local_from_flow;
  const SwitchPort* own = route.underlay == nullptr
                              ? nullptr
                              : route.underlay->find_port(route.underlay->config().name);
  if (own != nullptr && own->device) egress->max_frame = own->device->mtu() + 14;
  for (const auto& [remote, spec] : next.remotes) {
    if (options.remote) {
      egress->fixed = std::make_unique<packet::TunnelHeader>(spec);
    } else {
      egress->by_remote.emplace(remote, packet::TunnelHeader(spec));
    }
  }
  port.tunnel_status.clear();
  if (route.underlay != nullptr) {
    port.tunnel_status["tunnel_egress_iface"] = route.underlay->config().name;
    if (route.local) port.tunnel_status["tunnel_local_ip"] = port::format(*route.local);
    port.tunnel_status["tunnel_resolved"] = std::to_string(next.remotes.size());
  }
  lsi.lsi().set_tunnel(port.spec.number, std::move(egress),
                       route.underlay == nullptr ? nullptr : &route.underlay->lsi());
  now = std::move(next);
}

void Tunnels::publish_ingress(const std::map<SwitchLsi*, std::vector<End>>& ends) {
  for (SwitchLsi* old : with_ingress_) {
    if (!ends.contains(old) && by_id(old->id()) == old)
      (void)old->lsi().set_ingress_tunnels(nullptr);
  }
  with_ingress_.clear();
  for (const auto& [underlay, list] : ends) {
    std::vector<pipeline::TunnelIngress::Tunnel> tunnels;
    for (const End& end : list) {
      tunnels.push_back(end.tunnel);
      tunnels.back().inlet = lsis_.find(end.lsi)->second->lsi().tunnel_inlet(end.port);
    }
    auto table = std::make_shared<pipeline::TunnelIngress>(underlay->lsi(), tunnels);
    if (underlay->lsi().set_ingress_tunnels(std::move(table))) with_ingress_.insert(underlay);
  }
}

void Tunnels::publish(bool all) {
  std::map<SwitchLsi*, std::vector<End>> ends;
  std::map<std::string, Published> before = published_;
  bool moved = all;
  own_.clear();
  for (const auto& [name, lsi] : lsis_) {
    for (const auto& [port_name, port] : lsi->ports()) {
      if (!port->tunnel) continue;
      const TunnelOptions& options = *port->tunnel;
      const Route route = route_of(*lsi, options);
      publish_egress(*lsi, *port, route, all);
      moved |= before[port_name].route != route;
      before.erase(port_name);
      if (route.underlay == nullptr) continue;
      if (route.local) own_[route.underlay].insert(*route.local);
      pipeline::TunnelIngress::Tunnel tunnel;
      tunnel.key.kind = options.spec.kind;
      tunnel.any_local = !options.local;
      if (options.local) tunnel.key.local = options.local->octets;
      tunnel.any_remote = !options.remote;
      if (options.remote) tunnel.key.remote = options.remote->octets;
      tunnel.any_id = !options.in_key;
      if (options.in_key) tunnel.key.id = *options.in_key;
      tunnel.key.has_id = options.in_key && options.has_in_key;
      tunnel.dst_port = options.spec.dst_port;
      ends[route.underlay].push_back({name, port->spec.number, tunnel});
    }
  }
  for (const auto& [gone, what] : before) {
    moved = true;
    published_.erase(gone);
    flow_remotes_.erase(gone);
  }
  if (moved) publish_ingress(ends);
}

void Tunnels::refresh() {
  std::erase_if(with_ingress_, [&](SwitchLsi* lsi) {
    for (const auto& [name, each] : lsis_) {
      if (each.get() == lsi) return false;
    }
    return true;
  });
  publish(true);
}

void Tunnels::tick() {
  if (published_.empty()) return;
  neighbors_.expire(Neighbors::Clock::now());
  publish(false);
}

void Tunnels::punted(const pipeline::PuntInfo& info, std::span<const uint8_t> packet) {
  SwitchLsi* lsi = by_id(info.lsi_id);
  if (lsi == nullptr) return;
  if (info.in_port != pipeline::kPortLocal) {
    // A packet that could not leave by a port with remote_ip=flow.
    for (const auto& [name, port] : lsi->ports()) {
      if (port->spec.number != info.in_port || !port->tunnel) continue;
      std::set<RawIpv4>& remotes = flow_remotes_[name];
      if (remotes.size() >= kMaxFlowRemotes) remotes.clear();
      if (remotes.insert(static_cast<RawIpv4>(info.tunnel_id)).second) publish(false);
    }
    return;
  }
  const std::optional<NeighborMessage> message = read_neighbor_message(packet);
  if (!message) return;
  if (neighbors_.learn(lsi->id(), *message, Neighbors::Clock::now())) publish(false);
  if (!message->asks_for || !own_[lsi].contains(*message->asks_for)) return;
  for (const KernelAddress& have : kernel_addresses()) {
    const bool answers = have.interface == lsi->config().name && have.address == *message->asks_for;
    if (answers) return;
  }
  auto through = lsi->lsi().compile({pipeline::OutputAction{.port = pipeline::kPortTable}});
  const auto own = lsi->lsi().port_desc(pipeline::kPortLocal);
  if (!through || !own) return;
  (void)lsi->packet_out(pipeline::kPortLocal, std::move(*through),
                        neighbor_reply(packet, own->mac, *message->asks_for));
}

}  // namespace headrace::runtime
