// SPDX-License-Identifier: Apache-2.0
// Finds direct links in flow tables: ports of which all that comes in leaves, unchanged, by one
// other port, where nothing else arrives.
//
// From all rules that packets of a port could meet, in every table that they could reach, it is
// decided whether one rule a table takes them all and what it does; then whether packets of any
// other port could reach the same output. Patches into other LSIs are followed. What can't be
// decided from matches on in_port alone counts against a link, so an answer errs on the safe side;
// and the reason is reported.
//
// A rule with an idle timeout keeps a pair on the switch, which must see its packets to know
// whether it is used; one with a hard timeout does not: a link ends when its rule does.
//
// Thread safety: control thread only.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "pipeline/terms/flow_types.h"
#include "pipeline/terms/stats.h"

namespace headrace::pipeline {

class FlowTables;
class GroupTable;
class Lsi;
struct Flow;

/// Rules of an LSI that are looked through; where there are more, there are no direct links.
inline constexpr size_t kMaxPathRules = 16384;

/// What becomes of all that comes in by one port of one LSI.
struct PortPath {
  PortNo out{0};                             ///< it all goes here as it came; 0: `reason`
  std::vector<std::shared_ptr<Flow>> rules;  ///< that take it, in the order of their tables
  std::string reason;
};

/// The rules of one LSI, sorted by the port that they are for; good while they do not change.
class LsiPaths {
 public:
  LsiPaths(const FlowTables& flows, const GroupTable& groups);

  /// What becomes of a port's packets.
  [[nodiscard]] PortPath from(PortNo in_port) const;
  /// True if some packet of `in_port` could be sent to `out`, as far as can be told.
  [[nodiscard]] bool may_reach(PortNo in_port, PortNo out) const;

 private:
  /// The rules of a table that a port's packets could meet, by descending priority.
  struct TableRules {
    std::map<PortNo, std::vector<const Flow*>> of_port;
    std::vector<const Flow*> of_any;
  };
  struct Outputs {
    std::set<PortNo> ports;
    bool everywhere{false};  ///< ALL, FLOOD, NORMAL
  };

  /// What of a table a port's packets can meet; `total` is the first rule that takes all of them,
  /// or null.
  struct Met {
    std::vector<const Flow*> partial;  ///< at least as high as `total`
    const Flow* total{nullptr};
  };
  [[nodiscard]] Met met(uint8_t table_id, PortNo in_port) const;
  [[nodiscard]] const Outputs& outputs_of(PortNo in_port) const;
  void collect(const ActionList& actions, PortNo in_port, Outputs& outputs, unsigned depth) const;

  const GroupTable& groups_;
  std::map<uint8_t, TableRules> tables_;
  bool too_many_{false};
  mutable std::map<PortNo, Outputs> outputs_;
};

/// One LSI on the way of a direct link.
struct PathLeg {
  Lsi* lsi;
  PortNo in;
  PortNo out;
  std::vector<std::shared_ptr<Flow>> rules;
};

/// Where all that a port's peer sends ends up.
struct PointToPointPath {
  std::vector<PathLeg> legs;  ///< from the port to the device port at the other end
  std::string reason;         ///< why it is no direct link; empty: it is one

  [[nodiscard]] bool found() const { return reason.empty(); }
};

/// A search over LSIs that do not change meanwhile: what was learned of one is used again.
class PointToPointPaths {
 public:
  /// The way of all that comes in by port `from` of `lsi`, a device port.
  [[nodiscard]] PointToPointPath find(Lsi& lsi, PortNo from);

 private:
  const LsiPaths& paths_of(const Lsi& lsi);
  void follow(Lsi& lsi, PortNo from, PointToPointPath& path);
  /// Says so if anything but the path's own packets could arrive at its end.
  void check_sources(PointToPointPath& path);

  std::map<const Lsi*, std::unique_ptr<LsiPaths>> known_;
};

}  // namespace headrace::pipeline
