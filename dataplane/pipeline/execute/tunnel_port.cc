// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/tunnel_port.h"

#include <rte_mbuf_dyn.h>

#include <algorithm>
#include <cstring>

#include "packet/edit.h"
#include "pipeline/execute/flow_hash.h"
#include "pipeline/execute/tunnel_results.h"

namespace headrace::pipeline {
namespace {

/// What a packet brings with it from its tunnel. There is no room in an mbuf for IPv6 addresses:
/// they stay in the buffer, where the outer header was.
struct TunnelFields {
  uint32_t id;         ///< host order
  uint16_t ipv6_at;    ///< from the buffer's begin on: outer IPv6 source and destination; 0: IPv4
  uint64_t addresses;  ///< raw: outer IPv4 source and destination
};

/// Offset in an mbuf; set before workers see the first tunnel.
int g_fields_at = -1;

packet::TunnelAddress address_of(const uint8_t* ip, bool four, bool source) {
  packet::TunnelAddress address{};
  if (four) {
    std::memcpy(
        address.data(),
        ip + (source ? offsetof(packet::Ipv4Header, src) : offsetof(packet::Ipv4Header, dst)), 4);
  } else {
    std::memcpy(
        address.data(),
        ip + (source ? offsetof(packet::Ipv6Header, src) : offsetof(packet::Ipv6Header, dst)), 16);
  }
  return address;
}

bool is_neighbor_discovery(const uint8_t* frame, const packet::ParsedPacket& parsed) {
  return parsed.has(packet::kIpv6) && parsed.ip_proto == packet::kProtoIcmpv6 && parsed.l4 != 0 &&
         (frame[parsed.l4] == packet::kIcmpv6NeighborSolicitation ||
          frame[parsed.l4] == packet::kIcmpv6NeighborAdvertisement);
}

/// Gives the outer header the source that the packet's fields name, if they do.
void set_source(rte_mbuf* packet, bool ipv6, const match::FlowKey& values) {
  const auto parse = [packet] {
    return packet::parse(packet::frame_of(packet), packet::Depth::l4);
  };
  if (ipv6) {
    if (std::to_array(values.tun_ipv6_src) == packet::TunnelAddress{}) return;
    (void)packet::set_ipv6_src(packet, parse(), values.tun_ipv6_src);
  } else if (values.tun_src != 0) {
    (void)packet::set_ipv4_src(packet, parse(), reinterpret_cast<const uint8_t*>(&values.tun_src));
  }
}

}  // namespace

bool enable_tunnel_fields() {
  if (g_fields_at >= 0) return true;
  const rte_mbuf_dynfield field{.name = "headrace_tunnel_fields",
                                .size = sizeof(TunnelFields),
                                .align = alignof(TunnelFields),
                                .flags = 0};
  g_fields_at = rte_mbuf_dynfield_register(&field);
  return g_fields_at >= 0;
}

void take_tunnel_fields(std::span<rte_mbuf* const> packets, match::FlowKey* values,
                        packet::Depth depth) noexcept {
  for (size_t i = 0; i < packets.size(); ++i) {
    const auto* fields = RTE_MBUF_DYNFIELD(packets[i], g_fields_at, const TunnelFields*);
    values[i].tunnel_id = packet::swap64(fields->id);
    if (depth != packet::Depth::full) continue;
    OuterAddresses addresses{.ipv4 = fields->addresses};
    if (fields->ipv6_at != 0) {
      std::memcpy(addresses.ipv6.data(),
                  static_cast<const uint8_t*>(packets[i]->buf_addr) + fields->ipv6_at,
                  addresses.ipv6.size());
    }
    addresses.store(values[i]);
  }
}

// --- egress ------------------------------------------------------------------------------------

DropReason TunnelEgress::push(rte_mbuf* packet, const packet::ParsedPacket& parsed,
                              const match::FlowKey& values,
                              bool tunnel_fields_known) const noexcept {
  const packet::TunnelHeader* header = fixed.get();
  if (remote_from_flow) {
    if (!tunnel_fields_known) return DropReason::tunnel_no_remote;
    if (values.tun_dst != 0) {
      const auto found = by_remote.find(values.tun_dst);
      header = found == by_remote.end() ? nullptr : &found->second;
    } else {
      const packet::TunnelAddress remote = std::to_array(values.tun_ipv6_dst);
      if (remote == packet::TunnelAddress{}) return DropReason::tunnel_no_remote;
      const auto found = by_remote_ipv6.find(remote);
      header = found == by_remote_ipv6.end() ? nullptr : &found->second;
    }
  }
  if (header == nullptr) return DropReason::tunnel_unresolved;
  const uint64_t id = id_from_flow ? packet::swap64(values.tunnel_id) : header->spec().id;
  const packet::TunnelResult result =
      header->push(packet, parsed, id, entropy_of(flow_hash64(packet, parsed)), max_frame);
  if (result == packet::TunnelResult::done && local_from_flow && tunnel_fields_known) {
    set_source(packet, header->spec().ipv6, values);
  }
  return drop_reason(result);
}

RemoteEndpoint remote_endpoint_of(const match::FlowKey& values) noexcept {
  RemoteEndpoint remote_endpoint{};
  auto* octets = reinterpret_cast<uint8_t*>(remote_endpoint.data());
  if (values.tun_dst != 0) {
    octets[10] = octets[11] = 0xff;
    packet::store_raw32(octets + 12, values.tun_dst);
  } else {
    std::memcpy(octets, values.tun_ipv6_dst, sizeof values.tun_ipv6_dst);
  }
  return remote_endpoint;
}

// --- ingress -----------------------------------------------------------------------------------

TunnelIngress::TunnelIngress(const PublishedProgram& underlay, const std::vector<Tunnel>& tunnels)
    : underlay_(underlay) {
  for (const Tunnel& tunnel : tunnels) {
    auto found = std::find_if(classes_.begin(), classes_.end(), [&](const Class& each) {
      return each.any_local == tunnel.any_local && each.any_remote == tunnel.any_remote &&
             each.any_id == tunnel.any_id;
    });
    if (found == classes_.end()) {
      found = classes_.insert(found, {tunnel.any_local, tunnel.any_remote, tunnel.any_id, {}});
    }
    found->tunnels.emplace(tunnel.key, tunnel.inlet.get());
    inlets_.push_back(tunnel.inlet);
    const std::pair protocol{tunnel.key.kind, tunnel.dst_port};
    if (std::find(protocols_.begin(), protocols_.end(), protocol) == protocols_.end()) {
      protocols_.push_back(protocol);
    }
  }
  // As Open vSwitch: a fixed key before any key, then a fixed remote, then a fixed local address.
  const auto rank = [](const Class& each) {
    return (each.any_id ? 4 : 0) + (each.any_remote ? 2 : 0) + (each.any_local ? 1 : 0);
  };
  std::sort(classes_.begin(), classes_.end(),
            [&](const Class& a, const Class& b) { return rank(a) < rank(b); });
}

const Port* TunnelIngress::find(const TunnelKey& key) const noexcept {
  for (const Class& each : classes_) {
    TunnelKey wanted = key;
    if (each.any_local) wanted.local = {};
    if (each.any_remote) wanted.remote = {};
    if (each.any_local && each.any_remote) wanted.ipv6 = false;
    if (each.any_id) {
      wanted.id = 0;
      wanted.has_id = false;
    }
    if (const auto found = each.tunnels.find(wanted); found != each.tunnels.end()) {
      return found->second;
    }
  }
  return nullptr;
}

TunnelIngress::Verdict TunnelIngress::classify(rte_mbuf* packet) const noexcept {
  using What = Verdict::What;
  const packet::ParsedPacket parsed = packet::parse(packet::frame_of(packet), packet::Depth::full);
  const uint8_t* frame = packet::frame_of(packet).data();
  if (parsed.has(packet::kArp) || is_neighbor_discovery(frame, parsed)) {
    return {.what = What::neighbor};
  }
  if (!parsed.has(packet::kIpv4 | packet::kIpv6)) return {};
  for (const auto& [kind, port] : protocols_) {
    const packet::TunnelFound found = packet::find_tunnel(packet, parsed, kind, port);
    if (found.result == packet::TunnelResult::absent) continue;
    if (found.result != packet::TunnelResult::done) {
      // A fragment of UDP may be anybody's; what else is wrong was meant for this tunnel.
      if (found.result == packet::TunnelResult::fragment && kind != packet::TunnelKind::gre) {
        return {};
      }
      return {.what = What::drop, .reason = drop_reason(found.result)};
    }
    const bool four = parsed.has(packet::kIpv4);
    const uint8_t* ip = frame + parsed.l3;
    const TunnelKey key{.local = address_of(ip, four, false),
                        .remote = address_of(ip, four, true),
                        .id = found.id,
                        .kind = kind,
                        .has_id = found.has_key,
                        .ipv6 = !four};
    const Port* inlet = find(key);
    if (inlet == nullptr) return {.what = What::drop, .reason = DropReason::tunnel_unknown};
    const OuterAddresses addresses = OuterAddresses::of(ip, four);
    if (!packet::pop_tunnel(packet, found)) {
      return {.what = What::drop, .reason = DropReason::tunnel_malformed};
    }
    auto* fields = RTE_MBUF_DYNFIELD(packet, g_fields_at, TunnelFields*);
    *fields = {.id = found.id, .ipv6_at = 0, .addresses = addresses.ipv4};
    if (!four) {
      // What was taken off leaves room for more than the addresses, even where an Ethernet header
      // stands in it now.
      fields->ipv6_at = static_cast<uint16_t>(packet->data_off - addresses.ipv6.size());
      std::memcpy(static_cast<uint8_t*>(packet->buf_addr) + fields->ipv6_at, addresses.ipv6.data(),
                  addresses.ipv6.size());
    }
    return {.what = What::tunnel, .inlet = inlet};
  }
  return {};
}

}  // namespace headrace::pipeline
