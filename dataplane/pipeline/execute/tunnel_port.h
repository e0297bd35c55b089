// SPDX-License-Identifier: Apache-2.0
// Tunnel ports: what workers see of them.
//
// A tunnel port is a port of one LSI whose other end lies in another, the underlay: what is sent to
// it is encapsulated and comes into the underlay as if its own host had sent it (in_port LOCAL), so
// that the underlay's tables say where it leaves. What the underlay's tables output to LOCAL is
// looked at before the host gets it: a packet of a tunnel is decapsulated and comes in by the
// tunnel port of its LSI, all in the same burst; anything else goes on to the host. No kernel table
// takes part: addresses and neighbors are the control thread's (runtime/switch/tunnels.h).
//
// TunnelEgress and TunnelIngress are immutable; the control thread publishes new ones and frees old
// ones after a grace period.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "match/fields/fields.h"
#include "packet/tunnel.h"
#include "pipeline/terms/drop_reason.h"
#include "pipeline/terms/flow_types.h"
#include "pipeline/terms/punt.h"

namespace headrace::pipeline {

struct Port;
class PublishedProgram;

struct TunnelAddressHash {
  size_t operator()(const packet::TunnelAddress& address) const noexcept {
    return std::hash<std::string_view>{}(
        {reinterpret_cast<const char*>(address.data()), address.size()});
  }
};

/// How a tunnel port encapsulates.
struct TunnelEgress {
  /// With a fixed remote address: one header, or none while its next hop is not known.
  std::unique_ptr<const packet::TunnelHeader> fixed;
  /// With `remote_ip=flow`: by outer destination, as the packet has it (tun_dst, raw; if that is 0,
  /// tun_ipv6_dst, as Open vSwitch does); those whose next hops are known.
  std::unordered_map<uint32_t, packet::TunnelHeader> by_remote;
  std::unordered_map<packet::TunnelAddress, packet::TunnelHeader, TunnelAddressHash> by_remote_ipv6;
  bool remote_from_flow{false};
  bool id_from_flow{false};
  /// An outer source that the packet names (tun_src, tun_ipv6_src) is taken.
  bool local_from_flow{false};
  uint32_t max_frame{UINT32_MAX};  ///< octets that the underlay takes, without FCS

  /// Encapsulates; none: done. tunnel_unresolved with `remote_from_flow`: the packet's
  /// remote_endpoint_of() is to be resolved.
  [[nodiscard]] DropReason push(rte_mbuf* packet, const packet::ParsedPacket& parsed,
                                const match::FlowKey& values,
                                bool tunnel_fields_known) const noexcept;
};

/// The outer destination that a packet's fields name.
[[nodiscard]] RemoteEndpoint remote_endpoint_of(const match::FlowKey& values) noexcept;

/// What a received tunnel packet is looked up by; a part that a tunnel leaves open is zero.
struct TunnelKey {
  packet::TunnelAddress local{};
  packet::TunnelAddress remote{};
  uint32_t id{0};
  packet::TunnelKind kind{};
  bool has_id{false};
  bool ipv6{false};  ///< of the addresses
  bool operator==(const TunnelKey&) const = default;
};

struct TunnelKeyHash {
  size_t operator()(const TunnelKey& key) const noexcept {
    return TunnelAddressHash{}(key.local) ^ TunnelAddressHash {}(key.remote) * 31 ^
           (size_t{key.id} << 8 | static_cast<size_t>(key.kind) << 1 | (key.has_id ? 1 : 0));
  }
};

/// Which tunnels end at an LSI's LOCAL port.
class TunnelIngress {
 public:
  /// What a worker does with a packet that goes to LOCAL.
  struct Verdict {
    enum class What : uint8_t { host, neighbor, tunnel, drop } what{What::host};
    DropReason reason{DropReason::none};
    const Port* inlet{nullptr};  ///< tunnel: a patch end whose peer is the tunnel port
  };

  /// One tunnel: which parts of the key it names. `inlet` is kept alive.
  struct Tunnel {
    TunnelKey key;
    bool any_local{false};
    bool any_remote{false};
    bool any_id{false};
    uint16_t dst_port{0};
    std::shared_ptr<const Port> inlet;
  };

  TunnelIngress(const PublishedProgram& underlay, const std::vector<Tunnel>& tunnels);

  /// Where the packets come from: the LSI whose LOCAL port this stands before.
  [[nodiscard]] const PublishedProgram& underlay() const { return underlay_; }

  /// Decides, and decapsulates what belongs to a tunnel; its fields are then on the packet for
  /// take_tunnel_fields().
  [[nodiscard]] Verdict classify(rte_mbuf* packet) const noexcept;

 private:
  /// Tunnels that leave the same parts of the key open.
  struct Class {
    bool any_local;
    bool any_remote;
    bool any_id;
    std::unordered_map<TunnelKey, const Port*, TunnelKeyHash> tunnels;
  };
  [[nodiscard]] const Port* find(const TunnelKey& key) const noexcept;

  const PublishedProgram& underlay_;
  std::vector<Class> classes_;  ///< the more specific first
  std::vector<std::shared_ptr<const Port>> inlets_;
  std::vector<std::pair<packet::TunnelKind, uint16_t>> protocols_;  ///< kind and UDP port
};

/// Prepares what carries a tunnel's fields with a packet; once, before the first tunnel. False: the
/// EAL has no room left in its buffers.
[[nodiscard]] bool enable_tunnel_fields();

/// Moves a decapsulated packet's tunnel id and, if packets are parsed to `depth` full, its
/// addresses to its field values.
void take_tunnel_fields(std::span<rte_mbuf* const> packets, match::FlowKey* values,
                        packet::Depth depth) noexcept;

}  // namespace headrace::pipeline
