// SPDX-License-Identifier: Apache-2.0
// The IPv6 half of `router` (router.h): forwarding, neighbor discovery, ICMPv6.
//
// A router's addresses on a link are the configured one and a link-local one, derived from the
// port's MAC address. It answers solicitations and echo requests for both, and for the
// subnet-router anycast address (RFC 4291, 2.6.1). It sends no router advertisements: the default
// route of hosts must be configured. Link-local and multicast packets aren't forwarded.
//
// Thread safety: as for every function (function.h).
#pragma once

#include <memory>
#include <vector>

#include "vnf/function.h"
#include "vnf/net/rate_limit.h"
#include "vnf/state/ipv6_fib.h"
#include "vnf/state/neighbors.h"

namespace headrace::vnf {

/// An address of the router on a port, with the subnet behind it.
struct Ipv6Interface {
  uint16_t port;
  Ipv6Address address;
  Ipv6Prefix subnet;
};

struct Ipv6Route {
  Ipv6Prefix prefix;
  Ipv6Address via;
  uint16_t port;  ///< of the interface whose subnet holds `via`
};

struct Ipv6FixedNeighbor {
  Ipv6Address address;
  MacAddress mac;
  uint16_t port;
};

struct Ipv6RouterConfig {
  std::vector<Ipv6Interface> interfaces;
  std::vector<Ipv6Route> routes;
  std::vector<Ipv6FixedNeighbor> neighbors;
  uint32_t neighbor_timeout_s{300};
  uint32_t icmp_errors_per_s{1000};
  uint32_t neighbor_capacity{4096};
  uint16_t mtu{1500};

  /// The interface whose subnet contains the address, or null.
  [[nodiscard]] const Ipv6Interface* interface_towards(const Ipv6Address& address) const;
  /// The first interface on a port, or null.
  [[nodiscard]] const Ipv6Interface* interface_on(uint16_t port) const;
};

class Ipv6Router {
 public:
  static constexpr size_t kChunk = 32;

  static Result<std::unique_ptr<Ipv6Router>> make(const Ipv6RouterConfig& config,
                                                  const FunctionContext& context);

  /// At most kChunk untagged frames of IPv6's ethertype; consumes each.
  void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now, Output& output) noexcept;
  /// Retransmits solicitations, and removes expired neighbors.
  void tick(uint64_t now, Output& output) noexcept;
  void migrate_state(Ipv6Router& previous) noexcept;
  [[nodiscard]] nlohmann::json counters() const;

 private:
  /// What to do with a destination.
  struct Adjacency {
    enum class Kind : uint8_t { none, local, connected, gateway } kind{Kind::none};
    uint16_t port{0};
    uint32_t neighbor{0};  ///< of a gateway
  };

  Ipv6Router(Ipv6RouterConfig config, std::vector<Adjacency> adjacencies, Ipv6Fib fib,
             std::unique_ptr<Ipv6NeighborTable> neighbors, const FunctionContext& context);

  /// True if the packet is to be looked up; otherwise it has been consumed.
  bool admit(uint16_t port, rte_mbuf* packet, uint64_t now, Output& output) noexcept;
  [[nodiscard]] bool is_own(uint16_t port, const Ipv6Address& address) const noexcept;
  void forward(uint16_t in_port, rte_mbuf* packet, const Adjacency& adjacency, uint64_t now,
               Output& output) noexcept;
  void deliver(uint16_t port, rte_mbuf* packet, uint64_t now, Output& output) noexcept;
  bool handle_neighbor_message(uint16_t port, rte_mbuf* packet, uint64_t now,
                               Output& output) noexcept;
  void send_own(uint16_t port, rte_mbuf* packet, uint64_t now, Output& output) noexcept;
  void send_on_link(uint32_t neighbor, rte_mbuf* packet, uint64_t now, Output& output) noexcept;
  void send_to_host(uint16_t port, const Ipv6Address& host, rte_mbuf* packet, uint64_t now,
                    Output& output) noexcept;
  void transmit(const Ipv6Neighbor& neighbor, rte_mbuf* packet, Output& output) noexcept;
  void drop_with_error(uint16_t port, rte_mbuf* packet, uint8_t type, uint8_t code, uint32_t word,
                       DropReason reason, uint64_t now, Output& output) noexcept;
  void learn(Ipv6Neighbor& neighbor, const MacAddress& mac, uint64_t now, Output& output) noexcept;
  void solicit(Ipv6Neighbor& neighbor, uint64_t now, Output& output) noexcept;
  void handle_timeout(uint32_t index, uint64_t now, Output& output) noexcept;

  Ipv6RouterConfig config_;
  std::vector<MacAddress> port_macs_;
  std::vector<Ipv6Address> link_locals_;  ///< by port
  std::vector<Adjacency> adjacencies_;    ///< by the FIB's next hop
  Ipv6Fib fib_;
  std::unique_ptr<Ipv6NeighborTable> neighbors_;
  rte_mempool* pool_;
  uint64_t second_;  ///< TSC cycles
  RateLimit icmp_limit_;
  Counter forwarded_;
  Counter delivered_;
  Counter solicitations_;
  Counter advertisements_;
  Counter icmp_errors_;
};

}  // namespace headrace::vnf
