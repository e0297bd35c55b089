// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/router_config.h"

#include <fmt/format.h>

#include <algorithm>

namespace headrace::vnf {
namespace {

/// `10.0.0.1/24`: an address and the subnet that it is in.
std::optional<RouterInterface> parse_interface(const std::string& text) {
  const auto slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const auto address = parse_ipv4(text.substr(0, slash));
  const auto length = parse_ipv4_prefix("0.0.0.0" + text.substr(slash));
  if (!address || !length) return std::nullopt;
  const Ipv4Prefix subnet{.address = *address & length->mask(), .length = length->length};
  return RouterInterface{.port = 0, .address = *address, .subnet = subnet};
}

void read_interface(ConfigReader& entry, const FunctionContext& context, RouterConfig& router) {
  const auto port = context.port_index(entry.string("port"));
  if (port >= context.ports.size()) entry.complain("port", "isn't in `ports`");
  const auto text = entry.string("address");
  auto interface = parse_interface(text);
  if (!interface) {
    entry.complain("address", fmt::format("\"{}\" is not an address with its subnet's length "
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
    entry.complain("address", "its subnet overlaps another interface's");
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
  if (router.interfaces.empty()) config.complain("interfaces", "a router needs at least one");
  for (auto& entry : config.children("routes")) {
    RouterRoute route{.prefix = entry.ipv4_prefix("prefix"), .via = entry.ipv4("via"), .port = 0};
    const auto* towards = router.interface_towards(route.via);
    if (towards == nullptr) {
      entry.complain("via", "no interface's subnet holds it");
    } else {
      route.port = towards->port;
    }
    router.routes.push_back(route);
    entry.finish();
  }
  for (auto& entry : config.children("neighbours")) {
    RouterNeighbour neighbour{.address = entry.ipv4("address"), .mac = entry.mac("mac"), .port = 0};
    const auto* towards = router.interface_towards(neighbour.address);
    if (towards == nullptr) {
      entry.complain("address", "no interface's subnet holds it");
    } else {
      neighbour.port = towards->port;
    }
    router.neighbours.push_back(neighbour);
    entry.finish();
  }
  router.arp_timeout_s = static_cast<uint32_t>(config.integer("arp_timeout_s", 1, 86400, 300));
  router.icmp_errors_per_s =
      static_cast<uint32_t>(config.integer("icmp_errors_per_s", 0, 1'000'000, 1000));
  router.neighbour_capacity =
      static_cast<uint32_t>(config.integer("neighbour_capacity", 16, 1 << 20, 4096));
  router.mtu = static_cast<uint16_t>(config.integer("mtu", 68, 9600, 1500));
  if (router.neighbours.size() + router.routes.size() > router.neighbour_capacity / 2) {
    // Each gateway is a neighbour; half of the table stays for what is learnt.
    std::vector<Ipv4Address> fixed;
    for (const auto& route : router.routes) fixed.push_back(route.via);
    for (const auto& neighbour : router.neighbours) fixed.push_back(neighbour.address);
    std::sort(fixed.begin(), fixed.end());
    const auto distinct = std::unique(fixed.begin(), fixed.end()) - fixed.begin();
    if (static_cast<size_t>(distinct) > router.neighbour_capacity / 2) {
      config.complain(
          "neighbour_capacity",
          fmt::format("too small for {} gateways and neighbours; at least twice that", distinct));
    }
  }
  return router;
}

}  // namespace headrace::vnf
