// SPDX-License-Identifier: Apache-2.0
// Applies the desired state to the switch, and reports the outcome per row.
//
// apply() compares the desired rows with the rows applied so far and calls SwitchControl with the
// difference; changed_status() and changed_statistics() then return the columns to write back.
//
// A bridge that is the same object as at the last apply() and had no failure is not looked at, and
// a port whose state is as it was told makes no columns. So of a thousand bridges those cost
// something that something happens to; of the others only the state of each port is asked for.
//
// Sequence of apply(): workers; removal (patch pairs, ports, LSIs); LSIs; ports, first those that
// request a number, then those that had one before a restart, then the rest; patch pairs; mirrors;
// controllers. So a port may move to another bridge, and names and numbers may be swapped, in one
// transaction.
//
// Failures: a port or LSI that can't be created keeps its error and is retried at the next apply(),
// as in OVS; other rows are not affected. needs_retry() reports such failures, because their cause
// may go away without a change of the database (e.g. a device that another process still holds).
//
// Port numbers: LOCAL for the port named like its bridge; ofport_request if it is free; the number
// of the column `ofport` if it is free, so that a restart changes no number; otherwise the next one
// after the last assigned, so that a number isn't reused while controllers may still refer to it.
//
// Thread safety: none; used by the control thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ovsdb/desired.h"
#include "ovsdb/switch_control.h"
#include "ovsdb/values.h"

namespace headrace::ovsdb {

/// Rows to write: their columns.
using StatusRows = std::map<RowKey, Json>;

class Reconciler {
 public:
  explicit Reconciler(SwitchControl& control) : control_(control) {}

  /// Brings the switch to `desired`. Idempotent: applying the same state again only retries what
  /// failed.
  void apply(const Desired& desired);

  /// Whether the switch failed to create a port or an LSI at the last apply(). Rows that can't work
  /// until they change, such as a patch port without a peer, don't count.
  [[nodiscard]] bool needs_retry() const { return failed_; }

  /// Every status column, without statistics, of those rows of the last apply() that may have other
  /// values than at the last call. Queries the switch for the state of ports and controllers.
  [[nodiscard]] StatusRows changed_status();
  /// The column `statistics` of the interfaces and mirrors that have counted since the last call.
  [[nodiscard]] StatusRows changed_statistics();
  /// The next calls of both return all rows.
  void forget_told();
  /// Rows that have gone, or went to another bridge, since the last call.
  std::vector<RowKey> take_gone() { return std::exchange(gone_, {}); }

 private:
  struct Port {
    Uuid uuid;
    PortSpec spec;
    std::optional<uint32_t> requested;
    bool exists{false};                ///< created in the switch
    std::optional<std::string> error;  ///< why it doesn't exist, or what couldn't be changed
    Notes notes;                       ///< unsupported settings of the row
    std::string peer;                  ///< name of the connected patch port
    bool is_told{false};               ///< by changed_status(), with the state `told`
    PortState told;
    std::map<std::string, int64_t> told_statistics;
  };
  struct Lsi {
    std::shared_ptr<const BridgeRow> row;  ///< of the last apply()
    bool is_settled{false};                ///< all of the row is applied; else it is tried again
    LsiConfig config;
    bool exists{false};
    std::optional<std::string> error;
    std::map<std::string, Port> ports;
    std::vector<ControllerSpec> controllers;
    std::vector<pipeline::MirrorConfig> mirrors;
    Notes mirror_notes;  ///< settings of mirrors that can't be applied at present
    uint32_t last_number{0};
    std::map<Uuid, uint32_t> numbers;  ///< of removed ports, by interface row
    bool is_told{false};               ///< by changed_status()
    std::map<std::string, ControllerState> told_controllers;
    std::map<std::string, std::map<std::string, int64_t>> told_mirrors;
  };

  void apply_workers(const WorkerConfig& config);
  void remove_stale(const Desired& desired);
  /// Takes the rows of those LSIs that are to be applied, and returns these.
  std::vector<Lsi*> take_rows(const Desired& desired);
  /// Notes which rows of an LSI have gone.
  void note_gone(const BridgeRow& before, const BridgeRow* now);
  /// Removes the ports for which `which` is true.
  void remove_ports(const std::string& name, Lsi& lsi,
                    const std::function<bool(const std::string&, const Port&)>& which);
  void apply_lsi(Lsi& lsi);
  void apply_ports(Lsi& lsi);
  void apply_port(const std::string& name, Lsi& lsi, const InterfaceRow& row);
  void create_port(const std::string& name, Lsi& lsi, Port& port, const InterfaceRow& row);
  /// Keeps the error of `what`, and logs it unless it equals the previous one.
  void record_failure(const std::string& what, const Error& refusal,
                      const std::optional<std::string>& before, std::optional<std::string>& error);
  void apply_controllers(Lsi& lsi);
  void apply_mirrors(Lsi& lsi);
  /// Notes whether all of an LSI is applied; its status is told anew.
  static void settle(Lsi& lsi);
  void remove_port(const std::string& name, Port& port);
  void pair_patches();
  void detach(const std::string& lsi_name, Port& port);
  /// The LSI and the port of this name, or {nullptr, nullptr}.
  std::pair<const std::string*, Port*> find_port(const std::string& name);
  [[nodiscard]] const Port* find_port(const std::string& name) const;
  static bool is_number_free(const Lsi& lsi, uint32_t number);
  static std::optional<uint32_t> choose_number(Lsi& lsi, const InterfaceRow& row);

  void add_bridge(const Lsi& lsi, StatusRows& rows) const;
  void add_port(const std::string& name, const Lsi& lsi, Port& port, StatusRows& rows) const;
  void add_controllers(const std::string& name, Lsi& lsi, StatusRows& rows) const;
  [[nodiscard]] Json interface_columns(const Lsi& lsi, const Port& port,
                                       const PortState& state) const;
  /// Whether notes_on() may change although nothing happens to the port or its LSI.
  static bool depends_on_others(const Port& port);
  /// Settings of a port's row that are not applied as configured.
  [[nodiscard]] Notes notes_on(const Lsi& lsi, const Port& port) const;
  /// The same for the whole switch.
  [[nodiscard]] Notes notes_on_switch() const;

  SwitchControl& control_;
  std::optional<WorkerConfig> workers_;
  std::optional<std::string> workers_error_;
  Notes notes_;  ///< of the Open_vSwitch row
  std::optional<TlsFiles> tls_;
  std::map<std::string, Lsi> lsis_;
  std::optional<Uuid> root_;
  int64_t applied_cfg_{0};  ///< next_cfg of the last apply()
  bool failed_{false};      ///< see needs_retry()
  Notes told_notes_;        ///< notes_on_switch() as changed_status() told them
  std::vector<RowKey> gone_;
};

}  // namespace headrace::ovsdb
