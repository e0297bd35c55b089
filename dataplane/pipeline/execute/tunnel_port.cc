// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/tunnel_port.h"

#include <rte_mbuf_dyn.h>

#include <algorithm>
#include <cstring>

#include "packet/edit.h"
#include "pipeline/execute/action_runner.h"
#include "pipeline/execute/tunnel_actions.h"

namespace headrace::pipeline {
namespace {

/// What a packet brings with it from its tunnel.
struct TunnelFields {
  uint64_t id;         ///< raw, as FieldValues holds it
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

void take_tunnel_fields(std::span<rte_mbuf* const> packets, match::FieldValues* values) noexcept {
  for (size_t i = 0; i < packets.size(); ++i) {
    const auto* fields = RTE_MBUF_DYNFIELD(packets[i], g_fields_at, const TunnelFields*);
    values[i].tunnel_id = fields->id;
    match::set_word(values[i], 21, fields->addresses);
  }
}

// --- egress ------------------------------------------------------------------------------------

DropReason TunnelEgress::push(rte_mbuf* packet, const packet::ParsedPacket& parsed,
                              const match::FieldValues& values, bool tunnel_fields_known,
                              uint32_t& unresolved) const noexcept {
  const packet::TunnelHeader* header = fixed.get();
  if (remote_from_flow) {
    const uint32_t remote = tunnel_fields_known ? values.tun_dst : 0;
    if (remote == 0) return DropReason::tunnel_no_remote;
    const auto found = by_remote.find(remote);
    header = found == by_remote.end() ? nullptr : &found->second;
    if (header == nullptr) unresolved = remote;
  }
  if (header == nullptr) return DropReason::tunnel_unresolved;
  const uint64_t id = id_from_flow ? packet::swap64(values.tunnel_id) : header->spec().id;
  const packet::TunnelResult result =
      header->push(packet, parsed, id, entropy_of(flow_hash64(packet, parsed)), max_frame);
  const bool names_source = local_from_flow && tunnel_fields_known && values.tun_src != 0;
  if (result == packet::TunnelResult::done && names_source && !header->spec().ipv6) {
    const packet::ParsedPacket outer = packet::parse(packet::frame_of(packet), packet::Depth::l4);
    (void)packet::set_ipv4_src(packet, outer, reinterpret_cast<const uint8_t*>(&values.tun_src));
  }
  return drop_reason(result);
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
                        .has_id = found.has_key};
    const Port* inlet = find(key);
    if (inlet == nullptr) return {.what = What::drop, .reason = DropReason::tunnel_unknown};
    const uint64_t addresses =
        four ? packet::load_raw64(ip + offsetof(packet::Ipv4Header, src)) : 0;
    if (!packet::pop_tunnel(packet, found)) {
      return {.what = What::drop, .reason = DropReason::tunnel_malformed};
    }
    auto* fields = RTE_MBUF_DYNFIELD(packet, g_fields_at, TunnelFields*);
    fields->id = packet::swap64(found.id);
    fields->addresses = addresses;
    return {.what = What::tunnel, .inlet = inlet};
  }
  return {};
}

}  // namespace headrace::pipeline
