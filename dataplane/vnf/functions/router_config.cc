// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/router_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace headrace::vnf {
namespace {

/// `10.0.0.1/24`: an address with its subnet's length.
std::optional<RouterInterface> parse_interface(const std::string& text) {
  const auto slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const auto address = parse_ipv4(text.substr(0, slash));
  const auto length = parse_ipv4_prefix("0.0.0.0" + text.substr(slash));
  if (!address || !length) return std::nullopt;
  const Ipv4Prefix subnet{.address = *address & length->mask(), .length = length->length};
  return RouterInterface{.port = 0, .address = *address, .subnet = subnet};
}

/// Whether the member is an IPv6 address: only those contain colons.
bool is_ipv6(ConfigReader& entry, const char* key) {
  const Json* value = entry.raw(key);
  return value != nullptr && value->is_string() &&
         value->get<std::string>().find(':') != std::string::npos;
}

Ipv6Address read_ipv6(ConfigReader& entry, const char* key) {
  const auto text = entry.string(key);
  const auto address = parse_ipv6(text);
  if (!address) entry.add_error(key, fmt::format("\"{}\" is not an IPv6 address", text));
  return address.value_or(Ipv6Address{});
}

/// The port of the interface whose subnet contains the address.
uint16_t port_towards(ConfigReader& entry, const char* key, const Ipv6RouterConfig& ipv6,
                      const Ipv6Address& address) {
  const auto* towards = ipv6.interface_towards(address);
  if (towards == nullptr) entry.add_error(key, "no interface's subnet holds it");
  return towards == nullptr ? uint16_t{0} : towards->port;
}

void read_ipv6_interface(ConfigReader& entry, uint16_t port, Ipv6RouterConfig& ipv6) {
  const auto text = entry.string("address");
  const auto slash = text.find('/');
  const auto address = parse_ipv6(text.substr(0, slash));
  const auto length = parse_ipv6_prefix("::" + text.substr(std::min(slash, text.size())));
  if (slash == std::string::npos || !address || !length || is_multicast(*address) ||
      is_link_local(*address) || is_unspecified(*address)) {
    entry.add_error("address",
                    fmt::format("\"{}\" is not a global address with its subnet's length "
                                "(2001:db8::1/64)",
                                text));
    return;
  }
  const auto subnet = prefix_of(*address, length->length);
  const auto overlaps = [&](const Ipv6Interface& other) {
    return other.subnet.contains(subnet.address) || subnet.contains(other.subnet.address);
  };
  if (std::any_of(ipv6.interfaces.begin(), ipv6.interfaces.end(), overlaps)) {
    entry.add_error("address", "its subnet overlaps another interface's");
  }
  ipv6.interfaces.push_back({.port = port, .address = *address, .subnet = subnet});
}

void read_ipv6_route(ConfigReader& entry, Ipv6RouterConfig& ipv6) {
  const auto text = entry.string("prefix");
  const auto prefix = parse_ipv6_prefix(text);
  if (!prefix) {
    entry.add_error("prefix", fmt::format("\"{}\" is not an IPv6 prefix (2001:db8::/32, bits after "
                                          "it zero)",
                                          text));
  }
  const auto via = read_ipv6(entry, "via");
  const auto port = port_towards(entry, "via", ipv6, via);
  ipv6.routes.push_back({.prefix = prefix.value_or(Ipv6Prefix{}), .via = via, .port = port});
}

void read_ipv6_neighbor(ConfigReader& entry, Ipv6RouterConfig& ipv6) {
  const auto address = read_ipv6(entry, "address");
  const auto mac = entry.mac("mac");
  const auto port = port_towards(entry, "address", ipv6, address);
  ipv6.neighbors.push_back({.address = address, .mac = mac, .port = port});
}

void read_interface(ConfigReader& entry, const FunctionContext& context, RouterConfig& router) {
  const auto port = context.port_index(entry.string("port"));
  if (port >= context.ports.size()) entry.add_error("port", "isn't in `ports`");
  if (is_ipv6(entry, "address")) {
    read_ipv6_interface(entry, port, router.ipv6);
    return;
  }
  const auto text = entry.string("address");
  auto interface = parse_interface(text);
  if (!interface) {
    entry.add_error("address", fmt::format("\"{}\" is not an address with its subnet's length "
                                           "(10.0.0.1/24)",
                                           text));
    return;
  }
  interface->port = port;
  const auto overlaps = [&](const RouterInterface& other) {
    return other.subnet.contains(interface->subnet.address) ||
           interface->subnet.contains(other.subnet.address);
  };
  if (std::any_of(router.interfaces.begin(), router.interfaces.end(), overlaps)) {
    entry.add_error("address", "its subnet overlaps another interface's");
  }
  router.interfaces.push_back(*interface);
}

}  // namespace

const RouterInterface* RouterConfig::interface_towards(Ipv4Address address) const {
  const auto it = std::find_if(interfaces.begin(), interfaces.end(),
                               [&](const auto& i) { return i.subnet.contains(address); });
  return it == interfaces.end() ? nullptr : &*it;
}

const RouterInterface* RouterConfig::interface_on(uint16_t port) const {
  const auto it = std::find_if(interfaces.begin(), interfaces.end(),
                               [&](const auto& i) { return i.port == port; });
  return it == interfaces.end() ? nullptr : &*it;
}

RouterConfig read_router(ConfigReader& config, const FunctionContext& context) {
  RouterConfig router;
  for (auto& entry : config.children("interfaces")) {
    read_interface(entry, context, router);
    entry.finish();
  }
  if (router.interfaces.empty() && router.ipv6.interfaces.empty())
    config.add_error("interfaces", "a router needs at least one");
  for (auto& entry : config.children("routes")) {
    if (is_ipv6(entry, "prefix") || is_ipv6(entry, "via")) {
      read_ipv6_route(entry, router.ipv6);
      entry.finish();
      continue;
    }
    RouterRoute route{.prefix = entry.ipv4_prefix("prefix"), .via = entry.ipv4("via"), .port = 0};
    const auto* towards = router.interface_towards(route.via);
    if (towards == nullptr) {
      entry.add_error("via", "no interface's subnet holds it");
    } else {
      route.port = towards->port;
    }
    router.routes.push_back(route);
    entry.finish();
  }
  for (auto& entry : config.children("neighbors")) {
    if (is_ipv6(entry, "address")) {
      read_ipv6_neighbor(entry, router.ipv6);
      entry.finish();
      continue;
    }
    RouterNeighbor neighbor{.address = entry.ipv4("address"), .mac = entry.mac("mac"), .port = 0};
    const auto* towards = router.interface_towards(neighbor.address);
    if (towards == nullptr) {
      entry.add_error("address", "no interface's subnet holds it");
    } else {
      neighbor.port = towards->port;
    }
    router.neighbors.push_back(neighbor);
    entry.finish();
  }
  router.arp_timeout_s = static_cast<uint32_t>(config.integer("arp_timeout_s", 1, 86400, 300));
  router.icmp_errors_per_s =
      static_cast<uint32_t>(config.integer("icmp_errors_per_s", 0, 1'000'000, 1000));
  router.neighbor_capacity =
      static_cast<uint32_t>(config.integer("neighbor_capacity", 16, 1 << 20, 4096));
  router.mtu = static_cast<uint16_t>(config.integer("mtu", 68, 9600, 1500));
  constexpr uint16_t kMinIpv6Mtu = 1280;  // RFC 8200, 5
  if (!router.ipv6.interfaces.empty() && router.mtu < kMinIpv6Mtu) {
    config.add_error("mtu", fmt::format("IPv6 needs at least {}", kMinIpv6Mtu));
  }
  router.ipv6.mtu = router.mtu;
  router.ipv6.neighbor_timeout_s = router.arp_timeout_s;
  router.ipv6.icmp_errors_per_s = router.icmp_errors_per_s;
  router.ipv6.neighbor_capacity = router.neighbor_capacity;
  if (router.ipv6.neighbors.size() + router.ipv6.routes.size() > router.neighbor_capacity / 2) {
    std::set<Ipv6Address> distinct;
    for (const auto& route : router.ipv6.routes) distinct.insert(route.via);
    for (const auto& neighbor : router.ipv6.neighbors) distinct.insert(neighbor.address);
    if (distinct.size() > router.neighbor_capacity / 2) {
      config.add_error("neighbor_capacity",
                       fmt::format("too small for {} gateways and neighbors of IPv6; at least "
                                   "twice that",
                                   distinct.size()));
    }
  }
  if (router.neighbors.size() + router.routes.size() > router.neighbor_capacity / 2) {
    // Each gateway takes an entry; half of the table is kept for learnt neighbors.
    std::vector<Ipv4Address> fixed;
    for (const auto& route : router.routes) fixed.push_back(route.via);
    for (const auto& neighbor : router.neighbors) fixed.push_back(neighbor.address);
    std::sort(fixed.begin(), fixed.end());
    const auto distinct = std::unique(fixed.begin(), fixed.end()) - fixed.begin();
    if (static_cast<size_t>(distinct) > router.neighbor_capacity / 2) {
      config.add_error(
          "neighbor_capacity",
          fmt::format("too small for {} gateways and neighbors; at least twice that", distinct));
    }
  }
  return router;
}

}  // namespace headrace::vnf
