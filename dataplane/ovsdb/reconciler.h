// SPDX-License-Identifier: Apache-2.0
// Applies the desired state to the switch, and reports the outcome per row.
//
// apply() compares the desired rows with the rows applied so far and calls SwitchControl with the
// difference; status() and statistics() then return the columns to write back.
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
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ovsdb/desired.h"
#include "ovsdb/switch_control.h"
#include "ovsdb/values.h"

namespace headrace::ovsdb {

/// A row to write: table and UUID -> columns.
using RowKey = std::pair<std::string, Uuid>;
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

  /// Every status column of every row of the last apply(), without statistics. Queries the switch
  /// for the state of ports and controllers.
  [[nodiscard]] StatusRows status() const;
  /// The column `statistics` of every interface and mirror that exists.
  [[nodiscard]] StatusRows statistics() const;

 private:
  struct Port {
    Uuid uuid;
    PortSpec spec;
    std::optional<uint32_t> requested;
    bool exists{false};                ///< created in the switch
    std::optional<std::string> error;  ///< why it doesn't exist, or what couldn't be changed
    Notes notes;                       ///< unsupported settings of the row
    std::string peer;                  ///< name of the connected patch port
  };
  struct Lsi {
    Uuid uuid;
    LsiConfig config;
    bool exists{false};
    std::optional<std::string> error;
    Notes notes;  ///< unsupported settings of the row
    std::vector<PortRow> port_rows;
    std::map<std::string, Port> ports;
    std::vector<ControllerSpec> controllers;
    std::vector<ControllerRow> controller_rows;
    std::vector<pipeline::MirrorConfig> mirrors;
    Notes mirror_notes;  ///< settings of mirrors that can't be applied at present
    uint32_t last_number{0};
    std::map<Uuid, uint32_t> numbers;  ///< of removed ports, by interface row
  };

  void apply_workers(const WorkerConfig& config);
  void remove_stale(const Desired& desired);
  /// Removes the ports for which `which` is true.
  void remove_ports(const std::string& name, Lsi& lsi,
                    const std::function<bool(const std::string&, const Port&)>& which);
  void apply_lsi(const BridgeRow& row);
  void apply_ports(const BridgeRow& row);
  void apply_port(const std::string& name, Lsi& lsi, const InterfaceRow& row);
  void create_port(const std::string& name, Lsi& lsi, Port& port, const InterfaceRow& row);
  /// Keeps the error of `what`, and logs it unless it equals the previous one.
  void record_failure(const std::string& what, const Error& refusal,
                      const std::optional<std::string>& before, std::optional<std::string>& error);
  void apply_controllers(const BridgeRow& row);
  void apply_mirrors(const BridgeRow& row);
  void remove_port(const std::string& name, Port& port);
  void pair_patches();
  void detach(const std::string& lsi_name, Port& port);
  /// The LSI and the port of this name, or {nullptr, nullptr}.
  std::pair<const std::string*, Port*> find_port(const std::string& name);
  [[nodiscard]] const Port* find_port(const std::string& name) const;
  static bool is_number_free(const Lsi& lsi, uint32_t number);
  static std::optional<uint32_t> choose_number(Lsi& lsi, const InterfaceRow& row);

  void add_bridge_status(const std::string& name, const Lsi& lsi, StatusRows& rows) const;
  [[nodiscard]] Json interface_columns(const std::string& lsi_name, const Lsi& lsi,
                                       const Port& port) const;
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
};

}  // namespace headrace::ovsdb
