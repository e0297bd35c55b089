// SPDX-License-Identifier: Apache-2.0
// A logical switch instance, as its controller and its management see it: flow tables, groups,
// meters, ports and their counters, with the semantics of OpenFlow 1.3.
//
// An Lsi has two faces. The control face is this class: everything but program() is called from
// the one control thread, may allocate, and reports failure by value. The worker face is the
// LsiProgram that program() returns: compiled tables, rules and ports, which executors run and
// never change. The Lsi keeps the program in step with every accepted change:
//
// * A flow-mod that fits the table's present structure is inserted in place (the structures allow
//   one writer beside many readers), so it costs the same in a table of ten rules and of a million.
// * One that does not fit compiles the table anew, beside the old one, and publishes a new program.
// * What a worker may still be reading is reused only after the Reclaimer's grace period.
//
// A change is visible to workers when the method that makes it returns, but for one that has a
// large table built anew by LsiConfig::builder: then changing() is true until it is visible, as a
// whole, and workers run what they had meanwhile. Workers that are in the middle of a burst finish
// it with what they had. apply_bundle() makes many changes visible at once: a burst sees all or
// none of them.
//
// Source: OpenFlow Switch Specification 1.3.5; bundles: ONF EXT-230.
#pragma once

#include <rte_cycles.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "pipeline/program/published_program.h"
#include "pipeline/program/rule.h"
#include "pipeline/terms/flow_types.h"
#include "pipeline/terms/mirror_config.h"
#include "pipeline/terms/port_io.h"
#include "pipeline/terms/port_vlans.h"
#include "pipeline/terms/reclaimer.h"
#include "pipeline/terms/stats.h"
#include "pipeline/terms/table_builder.h"

namespace headrace::pipeline {

class LsiPaths;
struct GroupProgram;
struct LsiProgram;
struct PathLeg;
struct Port;
struct TunnelEgress;
class ActionProgram;
class Defragmenter;
class TunnelIngress;

/// The time that timeouts, durations and meters count in: TSC cycles.
struct TscClock {
  std::function<uint64_t()> now = [] { return rte_rdtsc(); };
  uint64_t hz = 0;  ///< 0: ask the EAL
};

struct LsiConfig {
  uint32_t id{0};    ///< unique in the process; punted packets carry it
  std::string name;  ///< for logs and tables
  TscClock clock;
  uint32_t max_flows_per_table{1'000'000};
  uint32_t max_groups{1u << 20};
  uint32_t max_meters{1u << 20};
  /// Builds large tables; must outlive the LSI. Null: the control thread does.
  TableBuilder* builder{nullptr};
};

/// How NORMAL switches.
struct NormalConfig {
  std::chrono::seconds mac_age{300};  ///< addresses unseen so long are forgotten; OVS's default
  /// Forward also to 01:80:c2:00:00:0x, which bridges keep to themselves (IEEE 802.1Q, table 8-1).
  bool forward_reserved{false};
  bool operator==(const NormalConfig&) const = default;
};

/// What add_port() needs to know. A patch port has no `io`.
struct PortSpec {
  PortNo number{0};  ///< 1..kPortMax, or kPortLocal
  std::string name;
  MacAddress mac{};
  PortIo* io{nullptr};   ///< must outlive the port by one grace period
  uint32_t features{0};  ///< ofp_port_features: current, advertised and supported
  uint32_t speed_kbps{0};
  bool link_up{true};
  /// tx() refuses by itself while there is no peer, so packets are offered to it also while the
  /// link is thought to be down: it knows better, and sooner.
  bool io_knows_link{false};
  bool tunnel{false};                ///< of a port without `io`: set by add_tunnel()
  std::optional<PortVlans> vlans{};  ///< for NORMAL; none: a trunk of all
};

/// Told about what happens inside an LSI; called on the control thread.
class LsiObserver {
 public:
  virtual ~LsiObserver() = default;
  /// A flow with OFPFF_SEND_FLOW_REM ended; its counts are final.
  virtual void flow_removed(const FlowStats& flow, FlowRemovedReason reason) {
    (void)flow, (void)reason;
  }
  virtual void port_changed(const PortDesc& port, PortChange change) { (void)port, (void)change; }
};

/// Called on the control thread for each flow that changed, when the change is made (a bundle's at
/// its commit). The reason counts if the flow is removed.
using FlowWatcher = std::function<void(const FlowStats&, FlowChange, FlowRemovedReason)>;

class Lsi;

/// What a port is to packets that are to go through it unchanged (point_to_point_path.h).
struct PortEnd {
  std::string name;               ///< empty: there is no such port
  bool receives{false};           ///< its configuration lets packets in
  bool sends{false};              ///< its configuration lets packets out
  bool device{false};             ///< it has a data path of its own
  bool changes{false};            ///< it is a tunnel, reassembles, or tunnels end before it
  bool mirrored_received{false};  ///< mirrors select what comes in by it
  bool mirrored_sent{false};      ///< or what leaves
  bool is_mirror_output{false};   ///< it takes a mirror's copies and nothing else
  bool gets_copies{false};        ///< copies leave by it, for it carries a mirror's VLAN
  Lsi* peer{nullptr};             ///< a patch: where packets come in; null: unconnected
  PortNo peer_port{0};
};

/// Told by an LSI on whose tables direct links depend; on the control thread.
class PathWatcher {
 public:
  virtual ~PathWatcher() = default;
  /// Counts are about to be read, or rules or ports to change: what went directly is to be
  /// accounted now.
  virtual void account() = 0;
  /// Rules, groups, ports or patches may have changed.
  virtual void changed() = 0;
};

using BundleItem = std::variant<FlowMod, GroupMod, MeterMod, PortMod>;

/// The item of a bundle that could not be honoured; none of the bundle's changes were made.
struct BundleFailure {
  size_t index;
  OfError error;
};

/// program() (any thread) is what workers run the next burst with.
class Lsi : public PublishedProgram {
 public:
  /// `reclaimer` must outlive the Lsi.
  Lsi(LsiConfig config, Reclaimer& reclaimer);
  /// Workers must have stopped using it: remove its ports, then destroy it in a function deferred
  /// to the Reclaimer.
  ~Lsi();

  [[nodiscard]] const LsiConfig& config() const { return config_; }

  // --- flows, groups, meters ---

  /// True while the last change is not visible yet. Flow-mods, group-mods, meter-mods and bundles
  /// that come meanwhile would wait for it, so keep them back until when_visible().
  [[nodiscard]] bool changing() const;
  /// Calls `function` when all changes made so far are visible: at once, if they are.
  void when_visible(std::function<void()> function);

  /// Adds, modifies or removes flows (section 6.4). On an error nothing was changed.
  OfResult<> flow_mod(const FlowMod& mod);
  /// Section 6.5. Deleting a group deletes the flows that refer to it.
  OfResult<> group_mod(const GroupMod& mod);
  /// Section 6.6. Deleting a meter deletes the flows that refer to it.
  OfResult<> meter_mod(const MeterMod& mod);
  /// All items or none, and visible to workers at once.
  tl::expected<void, BundleFailure> apply_bundle(std::span<const BundleItem> items);

  /// Removes flows whose idle or hard timeout has passed. Call a few times per second.
  void expire();

  /// What becomes of IP fragments that come in, before any table (ofp_config_flags).
  /// `defragmenter` is needed to reassemble, else unused.
  void set_fragments(FragmentMode mode, std::shared_ptr<Defragmenter> defragmenter = nullptr);
  [[nodiscard]] FragmentMode fragments() const;

  void set_normal(const NormalConfig& config);

  // --- reading ---

  /// Calls `visit` for each flow that `filter` selects, in table order.
  OfResult<> for_each_flow(const FlowFilter& filter,
                           const std::function<void(const FlowStats&)>& visit) const;
  [[nodiscard]] OfResult<AggregateStats> aggregate(const FlowFilter& filter) const;
  /// Of all kTableCount tables, empty ones included.
  [[nodiscard]] std::vector<TableStats> table_stats() const;
  /// By worker and table, for those that were timed.
  [[nodiscard]] std::vector<TableTimes> table_times() const;
  /// kGroupAll: all groups; an unknown group: none.
  [[nodiscard]] std::vector<GroupStats> group_stats(uint32_t group_id = kGroupAll) const;
  [[nodiscard]] std::vector<GroupDesc> group_descs() const;
  /// kMeterAll: all meters. An unknown meter is OFPMMFC_UNKNOWN_METER.
  [[nodiscard]] OfResult<std::vector<MeterStats>> meter_stats(uint32_t meter_id = kMeterAll) const;
  [[nodiscard]] OfResult<std::vector<MeterConfig>> meter_configs(
      uint32_t meter_id = kMeterAll) const;
  /// kPortAny: all ports. An unknown port is OFPBRC_BAD_PORT.
  [[nodiscard]] OfResult<std::vector<PortStats>> port_stats(PortNo port = kPortAny) const;
  [[nodiscard]] std::vector<PortDesc> port_descs() const;
  [[nodiscard]] std::optional<PortDesc> port_desc(PortNo port) const;
  [[nodiscard]] DropCounts drops() const;
  /// Those of one worker.
  [[nodiscard]] DropCounts drops(unsigned worker) const;
  /// What NORMAL has learned and not forgotten.
  [[nodiscard]] std::vector<LearnedMac> learned_macs() const;
  void forget_macs();

  // --- for a trace (pipeline/trace), which reads what workers read and changes nothing ---

  /// Calls `visit` with the flow that rule `rule` of the table is; false: it is none. Looks at each
  /// flow of the table.
  bool describe_rule(uint8_t table_id, RuleIndex rule,
                     const std::function<void(const FlowStats&)>& visit) const;
  /// What a group was made from, and what workers run of it, bucket by bucket; null: no such group.
  [[nodiscard]] const GroupMod* group_config(uint32_t group_id) const;
  [[nodiscard]] const GroupProgram* group_program(uint32_t group_id) const;
  /// Where NORMAL has learned an address.
  [[nodiscard]] std::optional<PortNo> find_mac(const uint8_t* mac, uint16_t vlan) const;
  /// The LSI's clock, in TSC cycles.
  [[nodiscard]] uint64_t now() const;

  /// The rules as the search for direct links wants them; good until the next change.
  [[nodiscard]] std::unique_ptr<LsiPaths> paths() const;
  [[nodiscard]] PortEnd port_end(PortNo port) const;
  /// Replaces the one watcher of paths; null: none. It must outlive the Lsi or be replaced.
  void watch_paths(PathWatcher* watcher);
  /// Counts packets that went along `leg` by a direct link: at both ports, in the tables, and at
  /// the rules that are still there.
  void account(const PathLeg& leg, uint64_t packets, uint64_t octets);

  // --- ports ---

  /// Adds a port with a data path of its own.
  Result<> add_port(const PortSpec& spec);
  /// Adds one end of a patch; packets sent to it are dropped until connect().
  Result<> add_patch(const PortSpec& spec);
  /// Adds a tunnel port; packets sent to it are dropped until set_tunnel().
  Result<> add_tunnel(const PortSpec& spec);
  /// How a tunnel port encapsulates, and the LSI where that comes in by LOCAL; both null: not at
  /// all. The underlay must outlive that by a grace period.
  void set_tunnel(PortNo port, std::shared_ptr<const TunnelEgress> egress, Lsi* underlay);
  /// What TunnelIngress needs of a tunnel port: where decapsulated packets come in.
  [[nodiscard]] std::shared_ptr<const Port> tunnel_inlet(PortNo port);
  /// The tunnels that end at this LSI's LOCAL port; null: none. False: there is no LOCAL port.
  bool set_ingress_tunnels(std::shared_ptr<const TunnelIngress> tunnels);
  /// Adds a port that gives back, as received by it, what is sent to it, with fragments
  /// reassembled.
  Result<> add_defragmenter(const PortSpec& spec, std::shared_ptr<Defragmenter> defragmenter);
  /// Joins two patch ports, of two LSIs or of one: what goes out of one comes in at the other.
  static Result<> connect(Lsi& a, PortNo port_a, Lsi& b, PortNo port_b);
  /// Undoes connect(), on both sides.
  void disconnect(PortNo port);
  /// Removes a port of either kind; workers no longer touch its PortIo one grace period later.
  Result<> remove_port(PortNo port);
  /// Tells the pipeline about the device's link; observers hear of a change.
  void set_link(PortNo port, bool up, uint32_t speed_kbps);
  /// Replaces the data path of a port that has one; workers touch the old one no more a grace
  /// period later.
  void set_port_io(PortNo port, PortIo& io);
  /// Packets that are longer are dropped instead of sent; octets of IP, 0: there is no limit.
  void set_port_mtu(PortNo port, uint32_t mtu);
  /// Changes what NORMAL does with VLANs at a port, which forgets the addresses learned there.
  void set_port_vlans(PortNo port, const std::optional<PortVlans>& vlans);
  OfResult<> port_mod(const PortMod& mod);

  // --- mirrors ---

  /// All mirrors there are to be. Those whose `id` stays go on counting. Ports may come and go
  /// meanwhile. Fails, and changes nothing, if there are too many.
  Result<> set_mirrors(std::vector<MirrorConfig> mirrors);
  /// By MirrorConfig::id.
  [[nodiscard]] std::map<std::string, MirrorStats> mirror_stats() const;

  // --- packet-out, events ---

  /// Compiles a packet-out's actions (section 7.3.7) for Executor::packet_out(). Good until the
  /// Lsi is destroyed; free it through the Reclaimer.
  [[nodiscard]] OfResult<std::unique_ptr<ActionProgram>> compile(const ActionList& actions) const;

  /// Replaces the one watcher of flows; null: none, which costs changes nothing.
  void watch_flows(FlowWatcher watcher);

  /// `observer` must be removed before it is destroyed.
  void add_observer(LsiObserver& observer);
  void remove_observer(LsiObserver& observer);

 private:
  void publish();
  void finish_change();
  void show_change();

  struct State;  // the control side's state: flow tables, groups, meters, ports

  LsiConfig config_;
  std::unique_ptr<State> state_;
};

}  // namespace headrace::pipeline
