// SPDX-License-Identifier: Apache-2.0
// The ports of one LSI: their descriptions, configuration and link, and what workers see of them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "pipeline/control/lsi.h"
#include "pipeline/program/handles.h"
#include "pipeline/terms/stats.h"

namespace headrace::pipeline {

class PortTable {
 public:
  PortTable() = default;
  ~PortTable();

  /// The handle of a number; made at first mention.
  PortHandle* handle(PortNo number);

  Result<> add(const PortSpec& spec, bool patch, uint64_t now);
  /// Takes the port out and hands over what workers may still be reading.
  Result<> remove(PortNo number, std::shared_ptr<const Port>& gone);

  /// Replaces the data path of a port that has one.
  void set_io(PortNo number, PortIo& io);
  void set_mtu(PortNo number, uint32_t mtu);

  /// Sets or clears (null) the peer of a patch port.
  Result<> set_peer(PortNo number, Lsi* peer, PortNo peer_port);
  /// How a tunnel port encapsulates and where to; what it replaces. Null: no such tunnel port.
  std::shared_ptr<const void> set_tunnel(PortNo number, std::shared_ptr<const TunnelEgress> egress,
                                         Lsi* underlay);
  /// The tunnels that end at a port with a device; what they replace, or an error without such a
  /// port.
  Result<std::shared_ptr<const void>> set_ingress_tunnels(
      PortNo number, std::shared_ptr<const TunnelIngress> tunnels);
  /// Makes a patch port lead back to itself through a defragmenter; before anything is sent to it.
  Result<> set_defragmenter(PortNo number, std::shared_ptr<Defragmenter> defragmenter, Lsi* own);
  /// What NORMAL does with VLANs at a port; what it replaces, maybe null.
  std::shared_ptr<const void> set_vlans(PortNo number, const std::optional<PortVlans>& vlans);
  /// What a port is to the mirrors of its LSI.
  struct MirrorRole {
    std::shared_ptr<const PortMirrors> mirrors{};  ///< null: there are no mirrors
    bool is_output{false};                         ///< it takes their copies and nothing else
    bool gets_copies{false};                       ///< it takes copies, too
  };
  /// What it replaces, maybe null.
  std::shared_ptr<const void> set_mirrors(PortNo number, MirrorRole role);
  /// What NORMAL does with VLANs at a port, or null.
  [[nodiscard]] const PortVlans* vlans(PortNo number) const;
  [[nodiscard]] std::vector<PortNo> numbers() const;

  /// The LSI and port at the other end of a patch; null if unconnected.
  [[nodiscard]] std::pair<Lsi*, PortNo> peer(PortNo number) const;

  /// True if something that a controller sees has changed.
  bool set_link(PortNo number, bool up, uint32_t speed_kbps);
  /// What configure() would say.
  [[nodiscard]] OfResult<> check(const PortMod& mod) const;
  OfResult<> configure(const PortMod& mod);

  /// Counts packets that came in by one port and left by another without a worker's seeing them.
  void account(PortNo in, PortNo out, uint64_t packets, uint64_t octets);
  [[nodiscard]] PortEnd end(PortNo number) const;
  [[nodiscard]] std::optional<PortDesc> desc(PortNo number) const;
  [[nodiscard]] std::vector<PortDesc> descs() const;
  [[nodiscard]] OfResult<std::vector<PortStats>> stats(PortNo number, uint64_t now,
                                                       uint64_t hz) const;
  /// The ports for a program, ascending by number.
  [[nodiscard]] std::vector<const Port*> published() const;

 private:
  struct Entry {
    std::shared_ptr<Port> port;
    PortDesc desc;
    Lsi* peer{nullptr};  ///< a patch port's; null: unconnected
    bool patch{false};
    bool is_mirror_output{false};
    bool gets_copies{false};    ///< see MirrorRole
    bool io_knows_link{false};  ///< see PortSpec
    uint64_t created{0};
    PortCounts accounted{};  ///< what workers did not see
  };

  static void refresh(Entry& entry);

  std::map<PortNo, std::unique_ptr<PortHandle>> handles_;
  std::map<PortNo, Entry> ports_;
};

/// `cycles` of TSC as a duration.
[[nodiscard]] Duration to_duration(uint64_t cycles, uint64_t hz);

}  // namespace headrace::pipeline
