// SPDX-License-Identifier: Apache-2.0
// What the kernel says about the network namespace that the switch runs in: interfaces, their
// addresses, unicast routes of the main table, and neighbors. Tunnels find their underlay, outer
// source address and next hop by it.
//
// One netlink socket (rtnetlink(7)) tells of each change; nothing is polled. Changes of routes and
// neighbors are taken in one by one. The kernel removes IPv4 routes with their interface or
// address without telling, so a change of either has the routes read anew; and when it had more
// to tell than the socket could hold, everything is.
//
// Thread safety: control thread only.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "pipeline/terms/stats.h"
#include "port/kernel/interface.h"
#include "port/tunnel_options.h"

struct nlmsghdr;

namespace headrace::runtime {

/// An address of a kernel interface with its subnet.
struct KernelAddress {
  std::string interface;
  port::IpAddress address;
  uint8_t prefix_length{0};
  auto operator<=>(const KernelAddress&) const = default;

  /// True if `other` is in its subnet.
  [[nodiscard]] bool is_near(const port::IpAddress& other) const;
  [[nodiscard]] bool is_link_local() const {
    return address.ipv6 && address.octets[0] == 0xfe && (address.octets[1] & 0xc0) == 0x80;
  }
};

/// The way to a destination.
struct KernelHop {
  std::string interface;
  std::optional<port::IpAddress> gateway;  ///< absent: the destination is on the link
  std::optional<port::IpAddress> source;   ///< the route's preferred source address
};

class KernelNetwork {
 public:
  /// Subscribes and reads all; fails if the kernel refuses a netlink socket.
  static Result<std::unique_ptr<KernelNetwork>> make();

  /// Readable when there is something for read().
  [[nodiscard]] int fd() const { return socket_.get(); }
  /// Takes in what the kernel has told since; true if anything changed.
  bool read();
  /// Whether read() last took in changes of interfaces: of state, name, MTU or address, or gone.
  [[nodiscard]] bool links_changed() const { return links_changed_; }

  [[nodiscard]] std::span<const KernelAddress> addresses() const { return addresses_; }
  /// By the longest prefix that has `destination`, then the least metric.
  [[nodiscard]] std::optional<KernelHop> route_to(const port::IpAddress& destination) const;
  /// The MAC address that the kernel has for `ip` on the interface, if it is usable.
  [[nodiscard]] std::optional<pipeline::MacAddress> neighbor(const std::string& interface,
                                                             const port::IpAddress& ip) const;

 private:
  /// A destination: IPv6 or not, length of the prefix, its octets.
  using Prefix = std::tuple<bool, uint8_t, packet::TunnelAddress>;
  struct Route {
    uint32_t metric{0};
    uint32_t interface { 0 };
    std::optional<port::IpAddress> gateway;
    std::optional<port::IpAddress> source;
    auto operator<=>(const Route&) const = default;
  };

  explicit KernelNetwork(port::Descriptor socket) : socket_(std::move(socket)) {}
  /// Asks for all objects of a kind (RTM_GETLINK, ...) on a socket of its own, and takes them in.
  Result<> dump(uint16_t request);
  Result<> read_all();
  void take(const nlmsghdr& message);
  void take_link(const nlmsghdr& message);
  void take_address(const nlmsghdr& message);
  void take_route(const nlmsghdr& message);
  void take_neighbor(const nlmsghdr& message);
  void name_addresses();

  port::Descriptor socket_;
  std::map<uint32_t, std::string> links_;
  std::set<std::tuple<uint32_t, port::IpAddress, uint8_t>> on_links_;  ///< addresses
  std::map<Prefix, std::set<Route>> routes_;
  std::map<std::pair<uint32_t, port::IpAddress>, pipeline::MacAddress> neighbors_;
  std::vector<KernelAddress> addresses_;  ///< on_links_ with names
  bool changed_{false};
  bool links_changed_{false};
  bool routes_may_have_gone_{false};
};

}  // namespace headrace::runtime
