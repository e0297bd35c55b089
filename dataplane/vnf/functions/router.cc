// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/router.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "vnf/functions/router_config.h"
#include "vnf/net/arp.h"
#include "vnf/net/icmp.h"
#include "vnf/net/ipv4_frame.h"
#include "vnf/net/rate_limit.h"
#include "vnf/state/ipv4_fib.h"
#include "vnf/state/neighbors.h"

namespace headrace::vnf {
namespace {

/// What to do with a destination.
struct Adjacency {
  enum class Kind : uint8_t {
    none,       ///< no route
    local,      ///< one of the router's addresses
    broadcast,  ///< of a subnet: not forwarded (RFC 2644)
    connected,  ///< the destination is the neighbor
    gateway,    ///< the next hop is `neighbor`
  } kind{Kind::none};
  uint16_t port{0};
  uint32_t neighbor{0};
};

/// The tables that a configuration is compiled to.
struct RouterTables {
  RouterConfig config;
  std::vector<MacAddress> port_macs;
  std::vector<Adjacency> adjacencies;  ///< by the FIB's next hop
  Ipv4Fib fib;
  std::unique_ptr<NeighborTable> neighbors;
  std::unique_ptr<Ipv6Router> ipv6;  ///< null without IPv6
};

class Router final : public Function {
 public:
  Router(RouterTables tables, const FunctionContext& context)
      : t_(std::move(tables)),
        pool_(context.pool),
        second_(context.tsc_hz),
        icmp_limit_(t_.config.icmp_errors_per_s, context.tsc_hz) {}

  void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
               Output& output) noexcept override {
    for (rte_mbuf* packet : packets) rte_prefetch0(rte_pktmbuf_mtod(packet, void*));
    for (size_t start = 0; start < packets.size(); start += kChunk) {
      process_chunk(port, packets.subspan(start, std::min(kChunk, packets.size() - start)), now,
                    output);
    }
  }

  uint64_t tick(uint64_t now, Output& output) noexcept override;
  void migrate_state(Function& previous) noexcept override;
  [[nodiscard]] nlohmann::json counters() const override;

 private:
  static constexpr size_t kChunk = 32;

  void process_chunk(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
                     Output& output) noexcept;
  [[nodiscard]] bool is_for_us(uint16_t port, const packet::EthernetHeader& ethernet) const {
    return std::memcmp(ethernet.dst, t_.port_macs[port].data(), sizeof ethernet.dst) == 0;
  }
  void forward(uint16_t in_port, rte_mbuf* packet, const Adjacency& adjacency, uint64_t now,
               Output& output) noexcept;
  void deliver(uint16_t port, rte_mbuf* packet, uint64_t now, Output& output) noexcept;
  void send_own(rte_mbuf* packet, uint64_t now, Output& output) noexcept;
  void send_to_next_hop(const Adjacency& adjacency, rte_mbuf* packet, uint64_t now,
                        Output& output) noexcept;
  void transmit(const Neighbor& neighbor, rte_mbuf* packet, Output& output) noexcept;
  void drop_with_error(uint16_t port, rte_mbuf* packet, uint8_t type, uint8_t code,
                       DropReason reason, uint64_t now, Output& output) noexcept;
  void handle_arp(uint16_t port, rte_mbuf* packet, uint64_t now, Output& output) noexcept;
  void learn(Neighbor& neighbor, const uint8_t* mac, uint64_t now, Output& output) noexcept;
  void send_request(Neighbor& neighbor, uint64_t now, Output& output) noexcept;
  void handle_timeout(uint32_t index, uint64_t now, Output& output) noexcept;

  RouterTables t_;
  rte_mempool* pool_;
  uint64_t second_;  ///< TSC cycles
  RateLimit icmp_limit_;
  uint64_t next_tick_{0};
  Counter forwarded_;
  Counter delivered_;
  Counter arp_requests_;
  Counter arp_replies_;
  Counter icmp_errors_;
};

void Router::process_chunk(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
                           Output& output) noexcept {
  std::array<rte_mbuf*, kChunk> routed;
  std::array<uint32_t, kChunk> destinations;
  std::array<uint64_t, kChunk> next_hops;
  size_t count = 0;
  std::array<rte_mbuf*, kChunk> ipv6_packets;
  size_t ipv6_count = 0;
  for (rte_mbuf* packet : packets) {
    if (rte_pktmbuf_data_len(packet) < sizeof(packet::EthernetHeader)) {
      output.drop(packet, DropReason::malformed);
      continue;
    }
    const auto& ethernet = ethernet_of(packet);
    if (ethernet.type == packet::kTypeArp) {
      handle_arp(port, packet, now, output);
    } else if (ethernet.type == packet::kTypeIpv6 && t_.ipv6) {
      ipv6_packets[ipv6_count++] = packet;
    } else if (ethernet.type != packet::kTypeIpv4 || !is_for_us(port, ethernet)) {
      output.drop(packet, DropReason::not_for_us);
    } else if (!is_ipv4_valid(packet)) {
      output.drop(packet, DropReason::malformed);
    } else {
      routed[count] = packet;
      destinations[count++] = packet::swap32(ipv4_of(packet).dst);
    }
  }
  t_.fib.lookup({destinations.data(), count}, next_hops.data());
  for (size_t i = 0; i < count; ++i) {
    forward(port, routed[i], t_.adjacencies[next_hops[i]], now, output);
  }
  if (ipv6_count > 0) t_.ipv6->process(port, {ipv6_packets.data(), ipv6_count}, now, output);
}

void Router::forward(uint16_t in_port, rte_mbuf* packet, const Adjacency& adjacency, uint64_t now,
                     Output& output) noexcept {
  using Kind = Adjacency::Kind;
  if (adjacency.kind == Kind::local) {
    deliver(in_port, packet, now, output);
    return;
  }
  auto& ip = ipv4_of(packet);
  if (adjacency.kind == Kind::none) {
    drop_with_error(in_port, packet, kIcmpUnreachable, kIcmpNetUnreachable, DropReason::no_route,
                    now, output);
  } else if (adjacency.kind == Kind::broadcast) {
    output.drop(packet, DropReason::denied);
  } else if (ip.ttl <= 1) {
    drop_with_error(in_port, packet, kIcmpTimeExceeded, 0, DropReason::ttl_expired, now, output);
  } else if (packet::swap16(ip.total_length) > t_.config.mtu) {
    // Fragmentation isn't supported; the sender of a packet with DF gets the MTU (RFC 1191).
    if ((ip.fragment & packet::swap16(0x4000)) != 0) {
      drop_with_error(in_port, packet, kIcmpUnreachable, kIcmpFragmentationNeeded,
                      DropReason::unsupported, now, output);
    } else {
      output.drop(packet, DropReason::unsupported);
    }
  } else {
    decrement_ttl(ip);
    forwarded_.add(1);
    send_to_next_hop(adjacency, packet, now, output);
  }
}

/// Sends to the next hop of a gateway or connected adjacency; resolves the neighbor first if
/// necessary.
void Router::send_to_next_hop(const Adjacency& adjacency, rte_mbuf* packet, uint64_t now,
                              Output& output) noexcept {
  uint32_t index = adjacency.neighbor;
  if (adjacency.kind == Adjacency::Kind::connected) {
    index = t_.neighbors->find_or_add(packet::swap32(ipv4_of(packet).dst), adjacency.port);
    if (index == NeighborTable::kNone) {
      output.drop(packet, DropReason::table_full);
      return;
    }
  }
  Neighbor& neighbor = (*t_.neighbors)[index];
  if (neighbor.has_mac()) {
    transmit(neighbor, packet, output);
    return;
  }
  if (rte_mbuf* oldest = NeighborTable::enqueue(neighbor, packet); oldest != nullptr) {
    output.drop(oldest, DropReason::no_neighbor);
  }
  if (neighbor.requests == 0) send_request(neighbor, now, output);
}

void Router::transmit(const Neighbor& neighbor, rte_mbuf* packet, Output& output) noexcept {
  auto& ethernet = ethernet_of(packet);
  std::memcpy(ethernet.dst, neighbor.mac.data(), sizeof ethernet.dst);
  std::memcpy(ethernet.src, t_.port_macs[neighbor.port].data(), sizeof ethernet.src);
  output.send(neighbor.port, packet);
}

/// Sends a packet that the router made; like forward(), but never causes an ICMP error.
void Router::send_own(rte_mbuf* packet, uint64_t now, Output& output) noexcept {
  uint32_t destination = packet::swap32(ipv4_of(packet).dst);
  uint64_t next_hop = Ipv4Fib::kNoRoute;
  t_.fib.lookup({&destination, 1}, &next_hop);
  const Adjacency& adjacency = t_.adjacencies[next_hop];
  if (adjacency.kind == Adjacency::Kind::connected || adjacency.kind == Adjacency::Kind::gateway) {
    send_to_next_hop(adjacency, packet, now, output);
  } else {
    output.drop(packet, DropReason::no_route);
  }
}

/// Handles a packet to the router itself: echo is answered, others cause an error as RFC 1122,
/// 3.2.2.1 requires.
void Router::deliver(uint16_t port, rte_mbuf* packet, uint64_t now, Output& output) noexcept {
  delivered_.add(1);
  if (answer_echo(packet)) {
    send_own(packet, now, output);
    return;
  }
  const uint8_t proto = ipv4_of(packet).proto;
  if (proto == packet::kProtoIcmp) {
    output.drop(packet, DropReason::not_for_us);
    return;
  }
  drop_with_error(port, packet, kIcmpUnreachable,
                  proto == packet::kProtoUdp ? kIcmpPortUnreachable : kIcmpProtocolUnreachable,
                  DropReason::not_for_us, now, output);
}

/// Drops a packet and sends an ICMP error about it, if RFC 1812 and the rate limit allow that.
void Router::drop_with_error(uint16_t port, rte_mbuf* packet, uint8_t type, uint8_t code,
                             DropReason reason, uint64_t now, Output& output) noexcept {
  const auto* interface = t_.config.interface_on(port);
  if (interface != nullptr && may_cause_icmp_error(packet) && icmp_limit_.take(now)) {
    const uint16_t mtu =
        code == kIcmpFragmentationNeeded && type == kIcmpUnreachable ? t_.config.mtu : uint16_t{0};
    if (rte_mbuf* error = make_icmp_error(pool_, packet, interface->address, type, code, mtu)) {
      icmp_errors_.add(1);
      send_own(error, now, output);
    } else {
      output.count_drop(DropReason::no_buffer);
    }
  }
  output.drop(packet, reason);
}

/// RFC 826, "Packet Reception": a known sender is updated; an unknown one is learnt if the packet's
/// target is our address; a request for our address is answered.
void Router::handle_arp(uint16_t port, rte_mbuf* packet, uint64_t now, Output& output) noexcept {
  const auto* arp = arp_of(packet);
  if (arp == nullptr) {
    output.drop(packet, DropReason::malformed);
    return;
  }
  const Ipv4Address sender = packet::swap32(arp->sender_ip);
  const auto* interface = t_.config.interface_towards(sender);
  const bool plausible = interface != nullptr && interface->port == port &&
                         sender != interface->address && (arp->sender_mac[0] & 1) == 0;
  if (!plausible) {
    output.drop(packet, DropReason::not_for_us);
    return;
  }
  const bool for_us = packet::swap32(arp->target_ip) == interface->address;
  const uint32_t index =
      for_us ? t_.neighbors->find_or_add(sender, port) : t_.neighbors->find(sender);
  if (index != NeighborTable::kNone) {
    learn((*t_.neighbors)[index], arp->sender_mac, now, output);
  }
  if (!for_us || arp->operation != kArpRequest) {
    output.drop(packet, DropReason::discarded);
    return;
  }
  answer_arp(packet, {.mac = t_.port_macs[port], .address = interface->address});
  arp_replies_.add(1);
  output.send(port, packet);
}

void Router::learn(Neighbor& neighbor, const uint8_t* mac, uint64_t now, Output& output) noexcept {
  if (neighbor.state == Neighbor::State::fixed) return;
  std::memcpy(neighbor.mac.data(), mac, neighbor.mac.size());
  neighbor.state = Neighbor::State::reachable;
  neighbor.requests = 0;
  neighbor.deadline = now + t_.config.arp_timeout_s * second_;
  for (uint8_t i = 0; i < neighbor.queued; ++i) transmit(neighbor, neighbor.queue[i], output);
  neighbor.queued = 0;
}

void Router::send_request(Neighbor& neighbor, uint64_t now, Output& output) noexcept {
  ++neighbor.requests;
  neighbor.deadline = now + second_;
  const auto* interface = t_.config.interface_towards(neighbor.address);
  rte_mbuf* request = make_arp_request(
      pool_, {.mac = t_.port_macs[neighbor.port], .address = interface->address}, neighbor.address);
  if (request == nullptr) {
    output.count_drop(DropReason::no_buffer);
    return;
  }
  arp_requests_.add(1);
  output.send(neighbor.port, request);
}

/// When a neighbor's deadline expires: requests again, or ends its reachability.
void Router::handle_timeout(uint32_t index, uint64_t now, Output& output) noexcept {
  Neighbor& neighbor = (*t_.neighbors)[index];
  if (neighbor.requests < Neighbor::kRequests) {
    send_request(neighbor, now, output);
    return;
  }
  neighbor.state = Neighbor::State::incomplete;
  neighbor.requests = 0;
  const uint8_t queued = std::exchange(neighbor.queued, uint8_t{0});
  const auto waiting = neighbor.queue;
  for (uint8_t i = 0; i < queued; ++i) {
    drop_with_error(neighbor.port, waiting[i], kIcmpUnreachable, kIcmpHostUnreachable,
                    DropReason::no_neighbor, now, output);
  }
  // An error may have been queued for this same neighbor, which is then being requested again.
  if (neighbor.queued == 0 && neighbor.requests == 0 && !neighbor.pinned) {
    t_.neighbors->remove(index);
  }
}

uint64_t Router::tick(uint64_t now, Output& output) noexcept {
  if (now < next_tick_) return 0;
  next_tick_ = now + second_ / 10;
  if (t_.ipv6) t_.ipv6->tick(now, output);
  const auto used = t_.neighbors->used();
  for (size_t i = used.size();
       i-- > 0;) {  // from the end: remove() moves the last entry to the free place
    const Neighbor& neighbor = (*t_.neighbors)[used[i]];
    const bool watched = neighbor.state == Neighbor::State::reachable ||
                         (neighbor.state == Neighbor::State::incomplete && neighbor.requests > 0);
    if (watched && now >= neighbor.deadline) handle_timeout(used[i], now, output);
  }
  return 0;
}

void Router::migrate_state(Function& previous) noexcept {
  auto& old_tables = static_cast<Router&>(previous).t_;
  if (t_.ipv6 && old_tables.ipv6) t_.ipv6->migrate_state(*old_tables.ipv6);
  auto& old = *old_tables.neighbors;
  for (const uint32_t old_index : old.used()) {
    Neighbor& learnt = old[old_index];
    const auto* interface = t_.config.interface_towards(learnt.address);
    if (learnt.state == Neighbor::State::fixed || interface == nullptr ||
        interface->port != learnt.port) {
      continue;
    }
    const uint32_t index = t_.neighbors->find_or_add(learnt.address, learnt.port);
    if (index == NeighborTable::kNone) continue;
    Neighbor& entry = (*t_.neighbors)[index];
    if (entry.state == Neighbor::State::fixed) continue;
    const bool pinned = entry.pinned;
    entry = learnt;
    entry.pinned = pinned;
    learnt.queued = 0;
  }
}

nlohmann::json Router::counters() const {
  nlohmann::json counters{{"forwarded", forwarded_.read()},
                          {"delivered", delivered_.read()},
                          {"arp_requests_sent", arp_requests_.read()},
                          {"arp_replies_sent", arp_replies_.read()},
                          {"icmp_errors_sent", icmp_errors_.read()}};
  if (t_.ipv6) counters["ipv6"] = t_.ipv6->counters();
  return counters;
}

/// Adds configured neighbors, and the gateways, which are never removed: adjacencies hold their
/// indices.
void add_neighbors(const RouterConfig& config, NeighborTable& table) {
  for (const auto& fixed : config.neighbors) {
    auto& neighbor = table[table.find_or_add(fixed.address, fixed.port)];
    neighbor.state = Neighbor::State::fixed;
    neighbor.mac = fixed.mac;
  }
  for (const auto& route : config.routes) {
    table[table.find_or_add(route.via, route.port)].pinned = true;
  }
}

Result<RouterTables> compile(const RouterConfig& config, const FunctionContext& context) {
  using Kind = Adjacency::Kind;
  auto neighbors = NeighborTable::make(config.neighbor_capacity);
  if (!neighbors) return tl::unexpected(neighbors.error());
  add_neighbors(config, **neighbors);
  std::vector<Adjacency> adjacencies{{}, {.kind = Kind::local}, {.kind = Kind::broadcast}};
  std::vector<Ipv4FibRoute> routes;
  std::map<uint32_t, uint32_t> by_neighbor;
  for (const auto& route : config.routes) {
    const uint32_t index = (*neighbors)->find(route.via);
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
    if (interface.subnet.length < 31) {
      routes.push_back({{interface.subnet.address | ~interface.subnet.mask(), 32}, 2});
      routes.push_back({{interface.subnet.address, 32}, 2});
    }
    routes.push_back({{interface.address, 32}, 1});
  }
  auto fib = Ipv4Fib::make(routes);
  if (!fib) return tl::unexpected(fib.error());
  RouterTables tables{.config = config,
                      .port_macs = {},
                      .adjacencies = std::move(adjacencies),
                      .fib = *std::move(fib),
                      .neighbors = *std::move(neighbors),
                      .ipv6 = nullptr};
  for (const auto& port : context.ports) tables.port_macs.push_back(port.mac);
  if (!config.ipv6.interfaces.empty()) {
    auto ipv6 = Ipv6Router::make(config.ipv6, context);
    if (!ipv6) return tl::unexpected(ipv6.error());
    tables.ipv6 = *std::move(ipv6);
  }
  return tables;
}

}  // namespace

std::unique_ptr<Function> make_router(ConfigReader& config, const FunctionContext& context) {
  const RouterConfig router = read_router(config, context);
  if (context.pool == nullptr || config.failed()) return nullptr;
  auto tables = compile(router, context);
  if (!tables) {
    config.add_error("routes", tables.error().message);
    return nullptr;
  }
  return std::make_unique<Router>(*std::move(tables), context);
}

}  // namespace headrace::vnf
