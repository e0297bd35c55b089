// SPDX-License-Identifier: Apache-2.0
// An LSI's ports, patches, tunnels and mirrors.
#include "pipeline/control/lsi.h"
#include "pipeline/control/lsi_state.h"
#include "pipeline/execute/tunnel_port.h"

namespace headrace::pipeline {

Result<> Lsi::add_port(const PortSpec& spec) {
  if (Result<> added = state_->ports.add(spec, false, state_->now()); !added) return added;
  state_->place_mirrors();
  publish();
  state_->tell(spec.number, PortChange::added);
  state_->changed();
  return {};
}

Result<> Lsi::add_patch(const PortSpec& spec) {
  if (Result<> added = state_->ports.add(spec, true, state_->now()); !added) return added;
  state_->place_mirrors();
  publish();
  state_->tell(spec.number, PortChange::added);
  state_->changed();
  return {};
}

Result<> Lsi::add_tunnel(const PortSpec& spec) {
  PortSpec tunnel = spec;
  tunnel.tunnel = true;
  if (Result<> added = add_patch(tunnel); !added) return added;
  // The outer header takes the flow's entropy, and IP is what tunnels of layer 3 carry.
  state_->flows.require(1u << 3 | 1u << 4);
  finish_change();
  return {};
}

Result<> Lsi::add_defragmenter(const PortSpec& spec, std::shared_ptr<Defragmenter> defragmenter) {
  if (Result<> added = add_patch(spec); !added) return added;
  Result<> set = state_->ports.set_defragmenter(spec.number, std::move(defragmenter), this);
  state_->changed();
  return set;
}

void Lsi::set_tunnel(PortNo port, std::shared_ptr<const TunnelEgress> egress, Lsi* underlay) {
  std::shared_ptr<const void> old = state_->ports.set_tunnel(port, std::move(egress), underlay);
  if (old != nullptr) state_->reclaimer.defer([old = std::move(old)] {});
  state_->changed();
}

std::shared_ptr<const Port> Lsi::tunnel_inlet(PortNo port) {
  auto inlet = std::make_shared<Port>();
  inlet->tx_hook.store(TxHook::patch, std::memory_order_relaxed);
  inlet->peer.store(this, std::memory_order_relaxed);
  inlet->peer_port.store(port, std::memory_order_relaxed);
  return inlet;
}

bool Lsi::set_ingress_tunnels(std::shared_ptr<const TunnelIngress> tunnels) {
  auto old = state_->ports.set_ingress_tunnels(kPortLocal, std::move(tunnels));
  if (!old) return false;
  if (*old != nullptr) state_->reclaimer.defer([old = std::move(*old)] {});
  state_->changed();
  return true;
}

Result<> Lsi::connect(Lsi& a, PortNo port_a, Lsi& b, PortNo port_b) {
  if (a.state_->ports.peer(port_a).first != nullptr) {
    return fail("patch {} of {}: has a peer already", port_a, a.config_.name);
  }
  if (b.state_->ports.peer(port_b).first != nullptr) {
    return fail("patch {} of {}: has a peer already", port_b, b.config_.name);
  }
  if (&a == &b && port_a == port_b) {
    return fail("patch {} of {}: cannot be its own peer", port_a, a.config_.name);
  }
  if (Result<> done = a.state_->ports.set_peer(port_a, &b, port_b); !done) return done;
  if (Result<> done = b.state_->ports.set_peer(port_b, &a, port_a); !done) {
    (void)a.state_->ports.set_peer(port_a, nullptr, 0);
    return done;
  }
  a.state_->changed();
  return {};
}

void Lsi::disconnect(PortNo port) {
  const auto [peer, peer_port] = state_->ports.peer(port);
  if (peer == nullptr) return;
  state_->account();
  (void)peer->state_->ports.set_peer(peer_port, nullptr, 0);
  (void)state_->ports.set_peer(port, nullptr, 0);
  state_->changed();
}

Result<> Lsi::remove_port(PortNo port) {
  state_->account();
  disconnect(port);
  const std::optional<PortDesc> desc = state_->ports.desc(port);
  // Workers look ports up in the program: the new one goes out before the port is reclaimed.
  std::shared_ptr<const Port> gone;
  if (Result<> removed = state_->ports.remove(port, gone); !removed) return removed;
  publish();
  state_->reclaimer.defer([gone = std::move(gone), port, this] { state_->macs.forget_port(port); });
  for (LsiObserver* observer : state_->observers) {
    observer->port_changed(*desc, PortChange::removed);
  }
  state_->changed();
  return {};
}

void Lsi::set_link(PortNo port, bool up, uint32_t speed_kbps) {
  if (!state_->ports.set_link(port, up, speed_kbps)) return;
  state_->tell(port, PortChange::modified);
  state_->changed();
}

void Lsi::set_port_io(PortNo port, PortIo& io) {
  state_->ports.set_io(port, io);
}

void Lsi::set_port_mtu(PortNo port, uint32_t mtu) {
  state_->ports.set_mtu(port, mtu);
}

void Lsi::set_port_vlans(PortNo port, const std::optional<PortVlans>& vlans) {
  std::shared_ptr<const void> old = state_->ports.set_vlans(port, vlans);
  // Workers may learn by the old rules until then.
  state_->reclaimer.defer([old = std::move(old), port, this] { state_->macs.forget_port(port); });
  state_->place_mirrors();
}

OfResult<> Lsi::port_mod(const PortMod& mod) {
  const std::optional<PortDesc> before = state_->ports.desc(mod.port);
  OfResult<> done = state_->ports.configure(mod);
  if (done && before->config != state_->ports.desc(mod.port)->config) {
    state_->tell(mod.port, PortChange::modified);
    state_->changed();
  }
  return done;
}

Result<> Lsi::set_mirrors(std::vector<MirrorConfig> mirrors) {
  state_->account();
  if (Result<> set = state_->mirrors.set(std::move(mirrors)); !set) return set;
  state_->place_mirrors();
  state_->changed();
  return {};
}

std::map<std::string, MirrorStats> Lsi::mirror_stats() const {
  return state_->mirrors.stats();
}

}  // namespace headrace::pipeline
