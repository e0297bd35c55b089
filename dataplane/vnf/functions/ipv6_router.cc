// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/ipv6_router.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "vnf/net/icmpv6.h"
#include "vnf/net/ipv6_frame.h"

namespace headrace::vnf {
namespace {

/// The offset of the next header field, which a parameter problem points to.
constexpr uint32_t kNextHeaderOffset = 6;

}  // namespace

const Ipv6Interface* Ipv6RouterConfig::interface_towards(const Ipv6Address& address) const {
  const auto it = std::find_if(interfaces.begin(), interfaces.end(),
                               [&](const auto& i) { return i.subnet.contains(address); });
  return it == interfaces.end() ? nullptr : &*it;
}

const Ipv6Interface* Ipv6RouterConfig::interface_on(uint16_t port) const {
  const auto it = std::find_if(interfaces.begin(), interfaces.end(),
                               [&](const auto& i) { return i.port == port; });
  return it == interfaces.end() ? nullptr : &*it;
}

Result<std::unique_ptr<Ipv6Router>> Ipv6Router::make(const Ipv6RouterConfig& config,
                                                     const FunctionContext& context) {
  using Kind = Adjacency::Kind;
  auto neighbors = Ipv6NeighborTable::make(config.neighbor_capacity);
  if (!neighbors) return tl::unexpected(neighbors.error());
  auto& table = **neighbors;
  for (const auto& fixed : config.neighbors) {
    auto& neighbor = table[table.find_or_add({fixed.address, fixed.port}, fixed.port)];
    neighbor.state = Ipv6Neighbor::State::fixed;
    neighbor.mac = fixed.mac;
  }
  std::vector<Adjacency> adjacencies{{}, {.kind = Kind::local}};
  std::vector<Ipv6FibRoute> routes;
  std::map<uint32_t, uint32_t> by_neighbor;
  for (const auto& route : config.routes) {
    const uint32_t index = table.find_or_add({route.via, route.port}, route.port);
    table[index].pinned = true;
    const auto [it, fresh] = by_neighbor.emplace(index, static_cast<uint32_t>(adjacencies.size()));
    if (fresh) {
      adjacencies.push_back({.kind = Kind::gateway, .port = route.port, .neighbor = index});
    }
    routes.push_back({route.prefix, it->second});
  }
  // Connected subnets go last: they take precedence over a route to the same prefix.
  for (const auto& interface : config.interfaces) {
    routes.push_back({interface.subnet, static_cast<uint32_t>(adjacencies.size())});
    adjacencies.push_back({.kind = Kind::connected, .port = interface.port});
    // The subnet-router anycast address; /127 links have none (RFC 6164, 5).
    if (interface.subnet.length < 127) routes.push_back({{interface.subnet.address, 128}, 1});
    routes.push_back({{interface.address, 128}, 1});
  }
  auto fib = Ipv6Fib::make(routes);
  if (!fib) return tl::unexpected(fib.error());
  return std::unique_ptr<Ipv6Router>(new Ipv6Router(config, std::move(adjacencies), *std::move(fib),
                                                    *std::move(neighbors), context));
}

Ipv6Router::Ipv6Router(Ipv6RouterConfig config, std::vector<Adjacency> adjacencies, Ipv6Fib fib,
                       std::unique_ptr<Ipv6NeighborTable> neighbors, const FunctionContext& context)
    : config_(std::move(config)),
      adjacencies_(std::move(adjacencies)),
      fib_(std::move(fib)),
      neighbors_(std::move(neighbors)),
      pool_(context.pool),
      second_(context.tsc_hz),
      icmp_limit_(config_.icmp_errors_per_s, context.tsc_hz) {
  for (const auto& port : context.ports) {
    port_macs_.push_back(port.mac);
    link_locals_.push_back(link_local_of(port.mac));
  }
}

bool Ipv6Router::is_own(uint16_t port, const Ipv6Address& address) const noexcept {
  if (config_.interface_on(port) == nullptr) return false;
  return address == link_locals_[port] ||
         std::any_of(config_.interfaces.begin(), config_.interfaces.end(),
                     [&](const auto& i) { return i.port == port && i.address == address; });
}

void Ipv6Router::process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
                         Output& output) noexcept {
  std::array<rte_mbuf*, kChunk> routed;
  std::array<Ipv6Address, kChunk> destinations;
  std::array<uint64_t, kChunk> next_hops;
  size_t count = 0;
  for (rte_mbuf* packet : packets) {
    if (!admit(port, packet, now, output)) continue;
    routed[count] = packet;
    destinations[count++] = to_address(ipv6_of(packet).dst);
  }
  if (count == 0) return;
  fib_.lookup({destinations.data(), count}, next_hops.data());
  for (size_t i = 0; i < count; ++i) {
    forward(port, routed[i], adjacencies_[next_hops[i]], now, output);
  }
}

bool Ipv6Router::admit(uint16_t port, rte_mbuf* packet, uint64_t now, Output& output) noexcept {
  if (!is_ipv6_valid(packet)) {
    output.drop(packet, DropReason::malformed);
    return false;
  }
  const auto& ip = ipv6_of(packet);
  const auto dst = to_address(ip.dst);
  const auto* mac = ethernet_of(packet).dst;
  if (is_multicast(dst)) {
    // Without multicast routing, only neighbor solicitations are accepted.
    if (config_.interface_on(port) == nullptr ||
        !handle_neighbor_message(port, packet, now, output)) {
      output.drop(packet, DropReason::not_for_us);
    }
    return false;
  }
  if (std::memcmp(mac, port_macs_[port].data(), port_macs_[port].size()) != 0) {
    output.drop(packet, DropReason::not_for_us);
    return false;
  }
  if (is_link_local(dst)) {
    if (is_own(port, dst)) {
      deliver(port, packet, now, output);
    } else {
      output.drop(packet, DropReason::not_for_us);
    }
    return false;
  }
  return true;
}

void Ipv6Router::forward(uint16_t in_port, rte_mbuf* packet, const Adjacency& adjacency,
                         uint64_t now, Output& output) noexcept {
  using Kind = Adjacency::Kind;
  if (adjacency.kind == Kind::local) {
    deliver(in_port, packet, now, output);
    return;
  }
  auto& ip = ipv6_of(packet);
  const auto src = to_address(ip.src);
  const size_t size = sizeof ip + packet::swap16(ip.payload_length);
  if (is_link_local(src) || is_unspecified(src) || is_multicast(src)) {
    output.drop(packet, DropReason::denied);  // RFC 4291, 2.5.2, 2.5.6, 2.7
  } else if (adjacency.kind == Kind::none) {
    drop_with_error(in_port, packet, kIcmpv6Unreachable, kIcmpv6NoRoute, 0, DropReason::no_route,
                    now, output);
  } else if (ip.hop_limit <= 1) {
    drop_with_error(in_port, packet, kIcmpv6TimeExceeded, 0, 0, DropReason::ttl_expired, now,
                    output);
  } else if (size > config_.mtu) {
    drop_with_error(in_port, packet, kIcmpv6PacketTooBig, 0, config_.mtu, DropReason::unsupported,
                    now, output);
  } else {
    --ip.hop_limit;
    forwarded_.add(1);
    if (adjacency.kind == Kind::gateway) {
      send_on_link(adjacency.neighbor, packet, now, output);
    } else {
      send_to_host(adjacency.port, to_address(ip.dst), packet, now, output);
    }
  }
}

void Ipv6Router::send_to_host(uint16_t port, const Ipv6Address& host, rte_mbuf* packet,
                              uint64_t now, Output& output) noexcept {
  const uint32_t index = neighbors_->find_or_add({host, port}, port);
  if (index == Ipv6NeighborTable::kNone) {
    output.drop(packet, DropReason::table_full);
    return;
  }
  send_on_link(index, packet, now, output);
}

void Ipv6Router::send_on_link(uint32_t index, rte_mbuf* packet, uint64_t now,
                              Output& output) noexcept {
  Ipv6Neighbor& neighbor = (*neighbors_)[index];
  if (neighbor.has_mac()) {
    transmit(neighbor, packet, output);
    return;
  }
  if (rte_mbuf* oldest = Ipv6NeighborTable::enqueue(neighbor, packet); oldest != nullptr) {
    output.drop(oldest, DropReason::no_neighbor);
  }
  if (neighbor.requests == 0) solicit(neighbor, now, output);
}

void Ipv6Router::transmit(const Ipv6Neighbor& neighbor, rte_mbuf* packet, Output& output) noexcept {
  auto& ethernet = ethernet_of(packet);
  std::memcpy(ethernet.dst, neighbor.mac.data(), sizeof ethernet.dst);
  std::memcpy(ethernet.src, port_macs_[neighbor.port].data(), sizeof ethernet.src);
  output.send(neighbor.port, packet);
}

/// Sends a packet that the router made; it never causes an ICMPv6 error. `port` is the link of a
/// link-local destination.
void Ipv6Router::send_own(uint16_t port, rte_mbuf* packet, uint64_t now, Output& output) noexcept {
  auto dst = to_address(ipv6_of(packet).dst);
  if (is_link_local(dst)) {
    send_to_host(port, dst, packet, now, output);
    return;
  }
  uint64_t next_hop = Ipv6Fib::kNoRoute;
  fib_.lookup({&dst, 1}, &next_hop);
  const Adjacency& adjacency = adjacencies_[next_hop];
  if (adjacency.kind == Adjacency::Kind::connected) {
    send_to_host(adjacency.port, dst, packet, now, output);
  } else if (adjacency.kind == Adjacency::Kind::gateway) {
    send_on_link(adjacency.neighbor, packet, now, output);
  } else {
    output.drop(packet, DropReason::no_route);
  }
}

/// Handles a packet to the router itself: neighbor discovery and echo; other packets cause an
/// error.
void Ipv6Router::deliver(uint16_t port, rte_mbuf* packet, uint64_t now, Output& output) noexcept {
  delivered_.add(1);
  if (handle_neighbor_message(port, packet, now, output)) return;
  const auto dst = to_address(ipv6_of(packet).dst);
  const auto* towards = config_.interface_towards(dst);
  if (answer_echo_v6(packet, is_link_local(dst) || towards == nullptr ? dst : towards->address)) {
    send_own(port, packet, now, output);
    return;
  }
  const uint8_t next = ipv6_of(packet).next_header;
  if (next == packet::kProtoIcmpv6) {
    output.drop(packet, DropReason::not_for_us);
  } else if (next == packet::kProtoUdp || next == packet::kProtoTcp) {
    drop_with_error(port, packet, kIcmpv6Unreachable, kIcmpv6PortUnreachable, 0,
                    DropReason::not_for_us, now, output);
  } else {
    drop_with_error(port, packet, kIcmpv6ParameterProblem, kIcmpv6UnknownNextHeader,
                    kNextHeaderOffset, DropReason::not_for_us, now, output);
  }
}

/// Drops a packet and sends an ICMPv6 error about it, if RFC 4443 and the rate limit allow that.
void Ipv6Router::drop_with_error(uint16_t port, rte_mbuf* packet, uint8_t type, uint8_t code,
                                 uint32_t word, DropReason reason, uint64_t now,
                                 Output& output) noexcept {
  const auto* interface = config_.interface_on(port);
  if (interface != nullptr && may_cause_icmpv6_error(packet, type) && icmp_limit_.take(now)) {
    rte_mbuf* error = make_icmpv6_error(pool_, packet, interface->address, type, code, word);
    if (error != nullptr) {
      icmp_errors_.add(1);
      send_own(port, error, now, output);
    } else {
      output.count_drop(DropReason::no_buffer);
    }
  }
  output.drop(packet, reason);
}

/// RFC 4861, 7.2. A solicitation for an own address is answered and its sender learnt; an
/// advertisement updates a known neighbor. False, and no effect, for other packets and invalid
/// messages.
bool Ipv6Router::handle_neighbor_message(uint16_t port, rte_mbuf* packet, uint64_t now,
                                         Output& output) noexcept {
  const auto message = read_neighbor_message(packet);
  if (!message) return false;
  const auto* towards = config_.interface_towards(message->sender);
  const bool on_link =
      is_link_local(message->sender) || (towards != nullptr && towards->port == port);
  if (message->solicitation) {
    if (!is_own(port, message->target) || (!on_link && !is_unspecified(message->sender))) {
      return false;
    }
    if (message->link_address && !is_own(port, message->sender)) {
      const uint32_t index = neighbors_->find_or_add({message->sender, port}, port);
      if (index != Ipv6NeighborTable::kNone) {
        learn((*neighbors_)[index], *message->link_address, now, output);
      }
    }
    const MacAddress asker = message->link_address.value_or([&] {
      MacAddress mac;
      std::memcpy(mac.data(), ethernet_of(packet).src, mac.size());
      return mac;
    }());
    rte_mbuf* answer =
        make_neighbor_advertisement(pool_, {.mac = port_macs_[port], .address = message->target},
                                    message->sender, asker.data());
    if (answer == nullptr) {
      output.count_drop(DropReason::no_buffer);
    } else {
      advertisements_.add(1);
      output.send(port, answer);
    }
  } else {
    const uint32_t index = neighbors_->find({message->target, port});
    if (index != Ipv6NeighborTable::kNone && message->link_address) {
      Ipv6Neighbor& known = (*neighbors_)[index];
      if (message->override || !known.has_mac() || known.mac == *message->link_address) {
        learn(known, *message->link_address, now, output);
      }
    }
  }
  output.drop(packet, DropReason::discarded);
  return true;
}

void Ipv6Router::learn(Ipv6Neighbor& neighbor, const MacAddress& mac, uint64_t now,
                       Output& output) noexcept {
  if (neighbor.state == Ipv6Neighbor::State::fixed) return;
  neighbor.mac = mac;
  neighbor.state = Ipv6Neighbor::State::reachable;
  neighbor.requests = 0;
  neighbor.deadline = now + config_.neighbor_timeout_s * second_;
  for (uint8_t i = 0; i < neighbor.queued; ++i) transmit(neighbor, neighbor.queue[i], output);
  neighbor.queued = 0;
}

void Ipv6Router::solicit(Ipv6Neighbor& neighbor, uint64_t now, Output& output) noexcept {
  ++neighbor.requests;
  neighbor.deadline = now + second_;
  const auto& target = neighbor.address.octets;
  const auto* interface = config_.interface_towards(target);
  const auto& own = is_link_local(target) || interface == nullptr ? link_locals_[neighbor.port]
                                                                  : interface->address;
  rte_mbuf* frame =
      make_neighbor_solicitation(pool_, {.mac = port_macs_[neighbor.port], .address = own}, target);
  if (frame == nullptr) {
    output.count_drop(DropReason::no_buffer);
    return;
  }
  solicitations_.add(1);
  output.send(neighbor.port, frame);
}

/// When a neighbor's deadline expires: solicits again, or ends its reachability.
void Ipv6Router::handle_timeout(uint32_t index, uint64_t now, Output& output) noexcept {
  Ipv6Neighbor& neighbor = (*neighbors_)[index];
  if (neighbor.requests < Ipv6Neighbor::kRequests) {
    solicit(neighbor, now, output);
    return;
  }
  neighbor.state = Ipv6Neighbor::State::incomplete;
  neighbor.requests = 0;
  const uint8_t queued = std::exchange(neighbor.queued, uint8_t{0});
  const auto waiting = neighbor.queue;
  for (uint8_t i = 0; i < queued; ++i) {
    drop_with_error(neighbor.port, waiting[i], kIcmpv6Unreachable, kIcmpv6AddressUnreachable, 0,
                    DropReason::no_neighbor, now, output);
  }
  // An error may have been queued for this same neighbor, which is then being solicited again.
  if (neighbor.queued == 0 && neighbor.requests == 0 && !neighbor.pinned) {
    neighbors_->remove(index);
  }
}

void Ipv6Router::tick(uint64_t now, Output& output) noexcept {
  const auto used = neighbors_->used();
  for (size_t i = used.size();
       i-- > 0;) {  // from the end: remove() moves the last entry to the free place
    const Ipv6Neighbor& neighbor = (*neighbors_)[used[i]];
    const bool watched =
        neighbor.state == Ipv6Neighbor::State::reachable ||
        (neighbor.state == Ipv6Neighbor::State::incomplete && neighbor.requests > 0);
    if (watched && now >= neighbor.deadline) handle_timeout(used[i], now, output);
  }
}

void Ipv6Router::migrate_state(Ipv6Router& previous) noexcept {
  auto& old = *previous.neighbors_;
  for (const uint32_t old_index : old.used()) {
    Ipv6Neighbor& learnt = old[old_index];
    const auto& address = learnt.address.octets;
    const auto* interface = is_link_local(address) ? config_.interface_on(learnt.port)
                                                   : config_.interface_towards(address);
    if (learnt.state == Ipv6Neighbor::State::fixed || interface == nullptr ||
        interface->port != learnt.port) {
      continue;
    }
    const uint32_t index = neighbors_->find_or_add(learnt.address, learnt.port);
    if (index == Ipv6NeighborTable::kNone) continue;
    Ipv6Neighbor& entry = (*neighbors_)[index];
    if (entry.state == Ipv6Neighbor::State::fixed) continue;
    const bool pinned = entry.pinned;
    entry = learnt;
    entry.pinned = pinned;
    learnt.queued = 0;
  }
}

nlohmann::json Ipv6Router::counters() const {
  return {{"forwarded", forwarded_.read()},
          {"delivered", delivered_.read()},
          {"solicitations_sent", solicitations_.read()},
          {"advertisements_sent", advertisements_.read()},
          {"icmp_errors_sent", icmp_errors_.read()}};
}

}  // namespace headrace::vnf
