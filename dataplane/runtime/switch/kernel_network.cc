// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/kernel_network.h"

#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace headrace::runtime {
namespace {

using port::IpAddress;

/// Interfaces, addresses, routes and neighbors; the last can number very many.
constexpr std::array<uint16_t, 4> kDumps{RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE, RTM_GETNEIGH};
constexpr size_t kDatagram = 65536;
constexpr int kReceiveBuffer = 1 << 20;

Result<port::Descriptor> open_socket(uint32_t groups) {
  port::Descriptor made(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  if (!made) return fail("a netlink socket: {}", std::strerror(errno));
  (void)setsockopt(made.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer);
  sockaddr_nl local{};
  local.nl_family = AF_NETLINK;
  local.nl_groups = groups;
  if (bind(made.get(), reinterpret_cast<const sockaddr*>(&local), sizeof local) != 0) {
    return fail("a netlink socket can't be told of changes: {}", std::strerror(errno));
  }
  return made;
}

std::optional<IpAddress> address_of(uint8_t family, const void* octets, size_t length) {
  const size_t needed = family == AF_INET6 ? 16 : 4;
  if ((family != AF_INET && family != AF_INET6) || length < needed) return std::nullopt;
  IpAddress address;
  address.ipv6 = family == AF_INET6;
  std::memcpy(address.octets.data(), octets, needed);
  return address;
}

void mask_to(packet::TunnelAddress& octets, unsigned length) {
  for (size_t i = 0; i < octets.size(); ++i) {
    const unsigned bits = std::min(8u, length > 8 * i ? length - static_cast<unsigned>(8 * i) : 0u);
    octets[i] &= static_cast<uint8_t>(0xff00u >> bits);
  }
}

/// Calls `visit(type, data, length)` for the attributes behind a header of type `Header`.
template <typename Header, typename Visit>
void for_each_attribute(const nlmsghdr& message, Visit&& visit) {
  const size_t head = NLMSG_SPACE(sizeof(Header));
  if (message.nlmsg_len < head) return;
  auto left = static_cast<int>(message.nlmsg_len - head);
  const auto* at = reinterpret_cast<const rtattr*>(reinterpret_cast<const char*>(&message) + head);
  for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
    visit(at->rta_type & NLA_TYPE_MASK, RTA_DATA(at), static_cast<size_t>(RTA_PAYLOAD(at)));
  }
}

/// The header behind nlmsghdr, or null if the message is too short for it.
template <typename Header>
const Header* header_of(const nlmsghdr& message) {
  if (message.nlmsg_len < NLMSG_LENGTH(sizeof(Header))) return nullptr;
  return reinterpret_cast<const Header*>(NLMSG_DATA(&message));
}

uint32_t number_of(const void* data, size_t length) {
  uint32_t number = 0;
  std::memcpy(&number, data, std::min(length, sizeof number));
  return number;
}

}  // namespace

bool KernelAddress::is_near(const IpAddress& other) const {
  if (other.ipv6 != address.ipv6) return false;
  packet::TunnelAddress ours = address.octets;
  packet::TunnelAddress theirs = other.octets;
  mask_to(ours, prefix_length);
  mask_to(theirs, prefix_length);
  return ours == theirs;
}

Result<std::unique_ptr<KernelNetwork>> KernelNetwork::make() {
  // Before anything is read: what changes meanwhile is told.
  Result<port::Descriptor> socket =
      open_socket(RTMGRP_LINK | RTMGRP_NEIGH | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
                  RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE);
  if (!socket) return tl::unexpected(socket.error());
  std::unique_ptr<KernelNetwork> made(new KernelNetwork(std::move(*socket)));
  if (Result<> read = made->read_all(); !read) return tl::unexpected(read.error());
  return made;
}

Result<> KernelNetwork::read_all() {
  links_.clear();
  on_links_.clear();
  routes_.clear();
  neighbors_.clear();
  for (const uint16_t request : kDumps) {
    if (Result<> read = dump(request); !read) return read;
  }
  routes_may_have_gone_ = false;
  name_addresses();
  return {};
}

Result<> KernelNetwork::dump(uint16_t request) {
  Result<port::Descriptor> socket = open_socket(0);
  if (!socket) return tl::unexpected(socket.error());
  struct {
    nlmsghdr header;
    rtmsg body;  // of all kinds of request the kernel reads the family first
  } asked{};
  asked.header.nlmsg_len = sizeof asked;
  asked.header.nlmsg_type = request;
  asked.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  if (send(socket->get(), &asked, sizeof asked, 0) < 0) {
    return fail("netlink request {}: {}", request, std::strerror(errno));
  }
  std::vector<char> buffer(kDatagram);
  for (;;) {
    // The kernel answers within the call that asks, so there is always something to read.
    const ssize_t got = recv(socket->get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail("netlink request {}: {}", request, std::strerror(errno));
    auto left = static_cast<unsigned>(got);
    for (const auto* at = reinterpret_cast<const nlmsghdr*>(buffer.data()); NLMSG_OK(at, left);
         at = NLMSG_NEXT(at, left)) {
      if (at->nlmsg_type == NLMSG_DONE) return {};
      if (at->nlmsg_type == NLMSG_ERROR) {
        const auto* error = header_of<nlmsgerr>(*at);
        return fail("netlink request {}: {}", request,
                    std::strerror(error == nullptr ? EPROTO : -error->error));
      }
      take(*at);
    }
  }
}

bool KernelNetwork::read() {
  changed_ = false;
  links_changed_ = false;
  std::vector<char> buffer(kDatagram);
  bool lost = false;
  for (;;) {
    const ssize_t got = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ENOBUFS) {
      lost = true;
      continue;
    }
    if (got <= 0) break;
    auto left = static_cast<unsigned>(got);
    for (const auto* at = reinterpret_cast<const nlmsghdr*>(buffer.data()); NLMSG_OK(at, left);
         at = NLMSG_NEXT(at, left)) {
      take(*at);
    }
  }
  Result<> again;
  if (lost) {
    again = read_all();
    changed_ = true;
    links_changed_ = true;
  } else if (std::exchange(routes_may_have_gone_, false)) {
    routes_.clear();
    again = dump(RTM_GETROUTE);
    name_addresses();
  }
  if (!again) log::warn("tunnels may not see the kernel's routes: {}", again.error().message);
  return changed_;
}

void KernelNetwork::take(const nlmsghdr& message) {
  switch (message.nlmsg_type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
      return take_link(message);
    case RTM_NEWADDR:
    case RTM_DELADDR:
      return take_address(message);
    case RTM_NEWROUTE:
    case RTM_DELROUTE:
      return take_route(message);
    case RTM_NEWNEIGH:
    case RTM_DELNEIGH:
      return take_neighbor(message);
    default:
      return;
  }
}

void KernelNetwork::take_link(const nlmsghdr& message) {
  const auto* link = header_of<ifinfomsg>(message);
  if (link == nullptr || link->ifi_family == AF_BRIDGE) return;
  const auto index = static_cast<uint32_t>(link->ifi_index);
  changed_ = true;
  links_changed_ = true;
  routes_may_have_gone_ = true;
  if (message.nlmsg_type == RTM_DELLINK) {
    links_.erase(index);
    std::erase_if(on_links_, [&](const auto& each) { return std::get<0>(each) == index; });
    std::erase_if(neighbors_, [&](const auto& each) { return each.first.first == index; });
    return;
  }
  for_each_attribute<ifinfomsg>(message, [&](int type, const void* data, size_t length) {
    if (type != IFLA_IFNAME || length == 0) return;
    links_[index] = std::string(static_cast<const char*>(data),
                                strnlen(static_cast<const char*>(data), length));
  });
}

void KernelNetwork::take_address(const nlmsghdr& message) {
  const auto* header = header_of<ifaddrmsg>(message);
  if (header == nullptr) return;
  std::optional<IpAddress> address;
  bool is_local = false;
  for_each_attribute<ifaddrmsg>(message, [&](int type, const void* data, size_t length) {
    // IFA_ADDRESS is the peer's on a point-to-point link, where IFA_LOCAL is ours.
    if (type != IFA_LOCAL && (type != IFA_ADDRESS || is_local)) return;
    address = address_of(header->ifa_family, data, length);
    is_local = type == IFA_LOCAL;
  });
  if (!address) return;
  changed_ = true;
  routes_may_have_gone_ = true;
  const std::tuple entry{header->ifa_index, *address, header->ifa_prefixlen};
  if (message.nlmsg_type == RTM_NEWADDR) {
    on_links_.insert(entry);
  } else {
    on_links_.erase(entry);
  }
}

void KernelNetwork::take_route(const nlmsghdr& message) {
  const auto* header = header_of<rtmsg>(message);
  if (header == nullptr || header->rtm_type != RTN_UNICAST) return;
  if ((header->rtm_flags & RTM_F_CLONED) != 0) return;  // the kernel's cache of IPv6
  uint32_t table = header->rtm_table;
  Route route;
  packet::TunnelAddress destination{};
  for_each_attribute<rtmsg>(message, [&](int type, const void* data, size_t length) {
    const auto address = address_of(header->rtm_family, data, length);
    if (type == RTA_TABLE) table = number_of(data, length);
    if (type == RTA_PRIORITY) route.metric = number_of(data, length);
    if (type == RTA_OIF) route.interface = number_of(data, length);
    if (type == RTA_DST && address) destination = address->octets;
    if (type == RTA_GATEWAY) route.gateway = address;
    if (type == RTA_PREFSRC) route.source = address;
    if (type == RTA_MULTIPATH && length >= sizeof(rtnexthop) && route.interface == 0) {
      // Of several ways, the first.
      const auto* first = static_cast<const rtnexthop*>(data);
      route.interface = static_cast<uint32_t>(first->rtnh_ifindex);
      auto left = static_cast<int>(std::min<size_t>(first->rtnh_len, length)) -
                  static_cast<int>(sizeof(rtnexthop));
      for (const auto* at = RTNH_DATA(first); RTA_OK(at, left); at = RTA_NEXT(at, left)) {
        if (at->rta_type != RTA_GATEWAY) continue;
        route.gateway = address_of(header->rtm_family, RTA_DATA(at), RTA_PAYLOAD(at));
      }
    }
  });
  if (table != RT_TABLE_MAIN || route.interface == 0) return;
  const Prefix prefix{header->rtm_family == AF_INET6, header->rtm_dst_len, destination};
  changed_ = true;
  if (message.nlmsg_type == RTM_NEWROUTE) {
    std::set<Route>& there = routes_[prefix];
    if ((message.nlmsg_flags & NLM_F_REPLACE) != 0) {
      std::erase_if(there, [&](const Route& each) { return each.metric == route.metric; });
    }
    there.insert(route);
    return;
  }
  const auto found = routes_.find(prefix);
  if (found == routes_.end()) return;
  found->second.erase(route);
  if (found->second.empty()) routes_.erase(found);
}

void KernelNetwork::take_neighbor(const nlmsghdr& message) {
  const auto* header = header_of<ndmsg>(message);
  if (header == nullptr) return;
  std::optional<IpAddress> ip;
  std::optional<pipeline::MacAddress> mac;
  for_each_attribute<ndmsg>(message, [&](int type, const void* data, size_t length) {
    if (type == NDA_DST) ip = address_of(header->ndm_family, data, length);
    if (type != NDA_LLADDR || length != sizeof(pipeline::MacAddress)) return;
    std::memcpy(mac.emplace().data(), data, length);
  });
  if (!ip) return;
  constexpr unsigned kUsable = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT;
  const bool usable =
      message.nlmsg_type == RTM_NEWNEIGH && mac && (header->ndm_state & kUsable) != 0;
  const std::pair key{static_cast<uint32_t>(header->ndm_ifindex), *ip};
  const auto found = neighbors_.find(key);
  if (usable) {
    if (found != neighbors_.end() && found->second == *mac) return;
    neighbors_[key] = *mac;
    changed_ = true;
  } else if (found != neighbors_.end()) {
    neighbors_.erase(found);
    changed_ = true;
  }
}

void KernelNetwork::name_addresses() {
  addresses_.clear();
  for (const auto& [index, address, length] : on_links_) {
    const auto link = links_.find(index);
    if (link != links_.end()) addresses_.push_back({link->second, address, length});
  }
}

std::optional<KernelHop> KernelNetwork::route_to(const IpAddress& destination) const {
  packet::TunnelAddress octets = destination.octets;
  for (int length = destination.ipv6 ? 128 : 32; length >= 0; --length) {
    mask_to(octets, static_cast<unsigned>(length));
    const auto found = routes_.find({destination.ipv6, static_cast<uint8_t>(length), octets});
    if (found == routes_.end()) continue;
    const Route& best = *found->second.begin();
    const auto link = links_.find(best.interface);
    if (link == links_.end()) continue;
    return KernelHop{link->second, best.gateway, best.source};
  }
  return std::nullopt;
}

std::optional<pipeline::MacAddress> KernelNetwork::neighbor(const std::string& interface,
                                                            const IpAddress& ip) const {
  for (const auto& [index, name] : links_) {
    if (name != interface) continue;
    const auto found = neighbors_.find({index, ip});
    return found == neighbors_.end() ? std::nullopt : std::optional(found->second);
  }
  return std::nullopt;
}

}  // namespace headrace::runtime
