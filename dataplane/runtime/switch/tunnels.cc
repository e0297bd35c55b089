// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/tunnels.h"

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

/// The far end that workers could not send to.
IpAddress address_of(const pipeline::RemoteEndpoint& remote_endpoint) {
  constexpr size_t kMapped = 12;  // RFC 4291, 2.5.5.2
  constexpr std::array<uint8_t, kMapped> kPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const auto* octets = reinterpret_cast<const uint8_t*>(remote_endpoint.data());
  IpAddress address;
  address.ipv6 = std::memcmp(octets, kPrefix.data(), kMapped) != 0;
  const size_t skip = address.ipv6 ? 0 : kMapped;
  std::memcpy(address.octets.data(), octets + skip, address.octets.size() - skip);
  return address;
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
  if (options.local) route.locals[options.local->ipv6 ? 1 : 0] = options.local;
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
  const std::optional<IpAddress> hop = options.gateway ? options.gateway : options.remote;
  const auto take_those = [&](auto&& fit) {
    for (const KernelAddress& have : kernel_.addresses()) {
      const auto bridge = lsis_.find(have.interface);
      if (bridge == lsis_.end() || !options.may_be(have.address.ipv6) || !fit(have)) continue;
      if (options.underlay.empty() && route.underlay == nullptr) use(*bridge->second);
      std::optional<IpAddress>& local = route.locals[have.address.ipv6 ? 1 : 0];
      if (!local && route.underlay == bridge->second.get()) local = have.address;
    }
  };
  take_those([&](const KernelAddress& have) {
    if (options.local) return *options.local == have.address;
    const bool near = hop && have.is_near(*hop);
    return near || (options.underlay == have.interface && !have.is_link_local());
  });
  // A far end beyond the bridges' subnets: by the kernel's route, if that leads by a bridge.
  const std::optional<KernelHop> way = hop ? kernel_.route_to(*hop) : std::nullopt;
  if (way && !options.local && !route.locals[hop->ipv6 ? 1 : 0]) {
    take_those([&](const KernelAddress& have) {
      if (have.interface != way->interface || have.address.ipv6 != hop->ipv6) return false;
      return way->source ? have.address == *way->source : !have.is_link_local();
    });
  }
  if (!options.local && !options.remote) {
    // Far ends may be anywhere, and of either IP version.
    take_those([&](const KernelAddress& have) {
      return !have.is_link_local() && (route.underlay != nullptr || !hop);
    });
  }
  if (route.underlay == nullptr && options.underlay.empty() && options.local) use(own);
  return route;
}

std::optional<packet::TunnelSpec> Tunnels::spec_for(const TunnelOptions& options,
                                                    const Route& route, const IpAddress& remote) {
  const std::optional<IpAddress>& local = route.locals[remote.ipv6 ? 1 : 0];
  if (route.underlay == nullptr || !local) return std::nullopt;
  packet::TunnelSpec spec = options.spec;
  spec.ipv6 = remote.ipv6;
  spec.local = local->octets;
  spec.remote = remote.octets;
  spec.src_mac = route.mac;
  if (options.remote_mac) {
    spec.dst_mac = *options.remote_mac;
    return spec;
  }
  const std::string& interface = route.underlay->config().name;
  IpAddress hop = remote;
  if (options.gateway && options.gateway->ipv6 == remote.ipv6) {
    hop = *options.gateway;
  } else if (const auto way = kernel_.route_to(remote);
             way && way->gateway && way->interface == interface) {
    hop = *way->gateway;
  }
  // What the kernel knows of its own interface need not be asked for.
  std::optional<pipeline::MacAddress> mac = kernel_.neighbor(interface, hop);
  if (!mac) {
    ask(*route.underlay, route, hop);
    mac = neighbors_.find(route.underlay->id(), hop);
  }
  if (!mac) return std::nullopt;
  spec.dst_mac = *mac;
  return spec;
}

void Tunnels::ask(SwitchLsi& underlay, const Route& route, const IpAddress& next_hop) {
  if (!neighbors_.should_ask(underlay.id(), next_hop, Neighbors::Clock::now())) return;
  auto through = underlay.lsi().compile({pipeline::OutputAction{.port = pipeline::kPortTable}});
  if (!through) return;
  const std::vector<uint8_t> request =
      neighbor_request(route.mac, *route.locals[next_hop.ipv6 ? 1 : 0], next_hop);
  if (!underlay.packet_out(pipeline::kPortLocal, std::move(*through), request)) {
    log::warn("{}: a request for a neighbor could not be sent", underlay.config().name);
  }
}

void Tunnels::publish_egress(SwitchLsi& lsi, SwitchPort& port, const Route& route, bool all) {
  const TunnelOptions& options = *port.tunnel;
  Published next{.route = route, .remotes = {}};
  if (options.remote) {
    if (auto spec = spec_for(options, route, *options.remote)) {
      next.remotes[*options.remote] = *spec;
    }
  } else {
    for (const IpAddress& remote : flow_remotes_[port.spec.name]) {
      if (auto spec = spec_for(options, route, remote)) next.remotes[remote] = *spec;
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
    } else if (remote.ipv6) {
      egress->by_remote_ipv6.emplace(remote.octets, packet::TunnelHeader(spec));
    } else {
      egress->by_remote.emplace(packet::load_raw32(remote.octets.data()),
                                packet::TunnelHeader(spec));
    }
  }
  port.tunnel_status.clear();
  if (route.underlay != nullptr) {
    port.tunnel_status["tunnel_egress_iface"] = route.underlay->config().name;
    std::string locals;
    for (const std::optional<IpAddress>& local : route.locals) {
      if (!local) continue;
      if (!locals.empty()) locals += ' ';
      locals += port::format(*local);
    }
    if (!locals.empty()) port.tunnel_status["tunnel_local_ip"] = locals;
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
      for (const std::optional<IpAddress>& local : route.locals) {
        if (local) own_[route.underlay].insert(*local);
      }
      pipeline::TunnelIngress::Tunnel tunnel;
      tunnel.key.kind = options.spec.kind;
      tunnel.any_local = !options.local;
      if (options.local) tunnel.key.local = options.local->octets;
      tunnel.any_remote = !options.remote;
      if (options.remote) tunnel.key.remote = options.remote->octets;
      tunnel.any_id = !options.in_key;
      if (options.in_key) tunnel.key.id = *options.in_key;
      tunnel.key.has_id = options.in_key && options.has_in_key;
      tunnel.key.ipv6 = !options.may_be(false);
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

void Tunnels::kernel_changed() {
  if (!published_.empty()) publish(false);
}

void Tunnels::punted(const pipeline::PuntInfo& info, std::span<const uint8_t> packet) {
  SwitchLsi* lsi = by_id(info.lsi_id);
  if (lsi == nullptr) return;
  if (info.in_port != pipeline::kPortLocal) {
    // A packet that could not leave by a port with remote_ip=flow.
    for (const auto& [name, port] : lsi->ports()) {
      if (port->spec.number != info.in_port || !port->tunnel) continue;
      std::set<IpAddress>& remotes = flow_remotes_[name];
      if (remotes.size() >= kMaxFlowRemotes) remotes.clear();
      if (remotes.insert(address_of({info.metadata, info.tunnel_id})).second) publish(false);
    }
    return;
  }
  const std::optional<NeighborMessage> message = read_neighbor_message(packet);
  if (!message) return;
  if (neighbors_.learn(lsi->id(), *message, Neighbors::Clock::now())) publish(false);
  if (!message->asks_for || !own_[lsi].contains(*message->asks_for)) return;
  for (const KernelAddress& have : kernel_.addresses()) {
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
