// SPDX-License-Identifier: Apache-2.0
// Keeps direct links in step with the flow tables: shared-memory ports that the rules join to
// nothing else (pipeline/control/point_to_point_path.h) are joined past the switch
// (shm/direct_link.h).
//
// After a change that links depend on, all links are evaluated again, once per handler (all
// flow-mods of one read are one evaluation). A link that the new rules do not allow is recalled:
// the switch's tables are changed first, and the sender switches back at its next call; what it
// sends until then still goes by the old link, in order. A link is made only after the previous one
// of either port has ended.
//
// Packets of direct links are added to the counters of rules, tables and ports before any of these
// is read or changed.
//
// Thread safety: control thread only.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/control/lsi.h"
#include "pipeline/control/point_to_point_path.h"
#include "port/direct_end.h"
#include "runtime/switch/switch_lsi.h"

namespace headrace::runtime {

/// A port that could be linked directly, and what becomes of that.
struct LinkReport {
  std::string lsi;
  std::string port;
  std::string group;
  std::string to;       ///< the port at the other end; empty: there is none
  std::string state;    ///< as shm::name() says, and "closing"
  std::string reason;   ///< why all that leaves the port does not go directly; empty: it does
  uint64_t packets{0};  ///< that went directly, since the port was made
  uint64_t octets{0};
};

class DirectLinkManager final : public pipeline::PathWatcher {
 public:
  using Lsis = std::map<std::string, std::unique_ptr<SwitchLsi>, std::less<>>;

  /// Both must outlive it.
  DirectLinkManager(asio::io_context& io, const Lsis& lsis);
  ~DirectLinkManager() override;
  DirectLinkManager(const DirectLinkManager&) = delete;
  DirectLinkManager& operator=(const DirectLinkManager&) = delete;

  // pipeline::PathWatcher:
  void account() override;
  void changed() override;

  /// Before a port or an LSI goes: what is known of it is forgotten, and its links end.
  void forget(const SwitchPort& port);
  void forget(const pipeline::Lsi& lsi);

  [[nodiscard]] std::vector<LinkReport> report();

 private:
  using End = port::DirectEnd;
  /// A link that is wanted, or was and is not off yet.
  struct Link {
    End* to;
    std::string to_name;
    std::vector<pipeline::PathLeg> legs;  ///< what its packets are accounted to
    bool ending{false};
  };
  /// What is to become of a port.
  struct Verdict {
    End* to{nullptr};
    std::string to_name;
    std::vector<pipeline::PathLeg> legs;
    std::string reason;
  };

  void look();
  [[nodiscard]] Verdict judge(pipeline::PointToPointPaths& search, const SwitchLsi& lsi,
                              const SwitchPort& port) const;
  [[nodiscard]] const SwitchPort* port_at(const pipeline::Lsi& lsi, pipeline::PortNo number) const;
  void advance();
  void end(End& from, Link& link);
  [[nodiscard]] bool is_used(const End& to) const;

  asio::io_context& io_;
  const Lsis& lsis_;
  asio::steady_timer timer_;
  bool look_scheduled_{false};
  bool timer_runs_{false};
  std::map<End*, Verdict> verdicts_;            ///< by the end that sends
  std::map<End*, Link> links_;                  ///< likewise
  std::map<End*, shm::DirectTraffic> traffic_;  ///< likewise: all that went directly
  std::shared_ptr<bool> alive_{std::make_shared<bool>(true)};
};

}  // namespace headrace::runtime
