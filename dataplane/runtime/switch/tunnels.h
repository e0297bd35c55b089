// SPDX-License-Identifier: Apache-2.0
// The tunnels of a switch, as the control thread has them: which bridge is the underlay of which,
// which next hop has which MAC address, and what of it is published to workers.
//
// The underlay of a tunnel port is a bridge: the one that options:underlay names; else the one
// whose own interface has options:local_ip, or an address in one subnet with the next hop, or by
// which the kernel routes to it (as with OVS); else, with a local_ip, the port's own bridge. The
// outer source is local_ip, or that interface's address; a port that sends over both IP versions
// has one of each, of the same bridge. The outer MAC addresses are the bridge's own and the next
// hop's: of options:remote_mac, or of the kernel's neighbor at the bridge's interface, or found by
// ARP or neighbor discovery through the underlay. The next hop is options:gateway, or the gateway
// of the kernel's route by that interface, or the far end itself.
//
// Control thread only. refresh() is called after every change of bridges and ports,
// kernel_changed() when KernelNetwork has read a change, and tick(), for requests and what is to be
// forgotten, a few times per second.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "pipeline/execute/tunnel_port.h"
#include "pipeline/terms/punt.h"
#include "runtime/switch/kernel_network.h"
#include "runtime/switch/neighbors.h"
#include "runtime/switch/switch_lsi.h"

namespace headrace::runtime {

class Tunnels {
 public:
  using Lsis = std::map<std::string, std::unique_ptr<SwitchLsi>, std::less<>>;

  /// Both must outlive this.
  Tunnels(const Lsis& lsis, const KernelNetwork& kernel) : lsis_(lsis), kernel_(kernel) {}

  /// Bridges or ports were added or are about to go: publishes everything anew.
  void refresh();
  /// Addresses, routes or neighbors of the kernel have changed: publishes what follows from it.
  void kernel_changed();
  /// Asks for neighbors, forgets old ones, and publishes what has changed.
  void tick();
  /// A packet that workers sent up with PuntReason::underlay.
  void punted(const pipeline::PuntInfo& info, std::span<const uint8_t> packet);

 private:
  /// What a tunnel port needs to send, as far as it is known.
  struct Route {
    SwitchLsi* underlay{nullptr};
    pipeline::MacAddress mac{};                            ///< the underlay's own
    std::array<std::optional<port::IpAddress>, 2> locals;  ///< outer sources: IPv4, IPv6
    bool operator==(const Route&) const = default;
  };
  /// What was published of a port, to publish nothing twice.
  struct Published {
    Route route;
    std::map<port::IpAddress, packet::TunnelSpec> remotes;
    bool operator==(const Published&) const = default;
  };
  struct End {
    std::string lsi;
    pipeline::PortNo port;
    pipeline::TunnelIngress::Tunnel tunnel;
  };

  void publish(bool all);
  void publish_egress(SwitchLsi& lsi, SwitchPort& port, const Route& route, bool all);
  void publish_ingress(const std::map<SwitchLsi*, std::vector<End>>& ends);
  [[nodiscard]] Route route_of(SwitchLsi& own, const port::TunnelOptions& options) const;
  /// The header's values for one remote address; nothing while its next hop is unknown.
  std::optional<packet::TunnelSpec> spec_for(const port::TunnelOptions& options, const Route& route,
                                             const port::IpAddress& remote);
  void ask(SwitchLsi& underlay, const Route& route, const port::IpAddress& next_hop);
  [[nodiscard]] SwitchLsi* by_id(uint32_t id) const;

  const Lsis& lsis_;
  const KernelNetwork& kernel_;
  Neighbors neighbors_;
  std::map<std::string, Published> published_;                     ///< by port name
  std::map<std::string, std::set<port::IpAddress>> flow_remotes_;  ///< of those with remote_ip=flow
  std::set<SwitchLsi*> with_ingress_;
  std::map<SwitchLsi*, std::set<port::IpAddress>>
      own_;  ///< addresses that tunnels have at an underlay
};

}  // namespace headrace::runtime
