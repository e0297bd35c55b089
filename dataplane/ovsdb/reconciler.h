// SPDX-License-Identifier: Apache-2.0
// Applies the desired state to the switch, and reports the outcome per row.
//
// What: apply() compares the desired rows with what was applied to the switch so far and calls
// SwitchControl with the difference; status() and statistics() then give the columns to write back.
//
// Order within apply(): workers; removal (patch pairs, ports, LSIs); LSIs; ports, those that ask
// for a number first, then those that had one before a restart, then the rest; patch pairs;
// mirrors; controllers. So a port may move to another bridge, and names and numbers may be swapped,
// in one transaction.
//
// Failures: a port or LSI that can't be made keeps its error and is tried again at the next
// apply(), as OVS does; nothing else is affected. wants_retry() says that there is one: its cause
// may go away without a change of the database (a device that another process still holds).
//
// Port numbers: LOCAL for the port named like its bridge; ofport_request if it is free; the number
// of the column `ofport` if it is free, so that a restart changes no number; else the next one
// after the last given out, so that a number isn't reused while controllers may still refer to it.
//
// Thread safety: none; the control thread owns it.
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

  /// Brings the switch to `desired`. Idempotent: the same state twice asks nothing but for what
  /// failed before.
  void apply(const Desired& desired);

  /// Whether the switch refused a port or an LSI at the last apply(). What can't work before its
  /// row changes, such as a patch port without a peer, is no such failure.
  [[nodiscard]] bool wants_retry() const { return refused_; }

  /// Every status column of every row that the last apply() knew, but for statistics. Asks the
  /// switch for the state of ports and controllers.
  [[nodiscard]] StatusRows status() const;
  /// The column `statistics` of every interface and mirror that exists.
  [[nodiscard]] StatusRows statistics() const;

 private:
  struct Port {
    Uuid uuid;
    PortSpec spec;
    std::optional<uint32_t> requested;
    bool exists{false};                ///< made in the switch
    std::optional<std::string> error;  ///< why it doesn't exist, or what couldn't be changed
    Notes notes;                       ///< what of the row is not served
    std::string peer;                  ///< name of the patch port that it is joined with
  };
  struct Lsi {
    Uuid uuid;
    LsiConfig config;
    bool exists{false};
    std::optional<std::string> error;
    Notes notes;  ///< what of the row is not served
    std::vector<PortRow> port_rows;
    std::map<std::string, Port> ports;
    std::vector<ControllerSpec> controllers;
    std::vector<ControllerRow> controller_rows;
    std::vector<pipeline::MirrorConfig> mirrors;
    Notes mirror_notes;  ///< what of the mirrors can't be so at present
    uint32_t last_number{0};
    std::map<Uuid, uint32_t> numbers;  ///< that ports had which are away, by interface row
  };

  void apply_workers(const WorkerConfig& config);
  void remove_stale(const Desired& desired);
  /// Removes the ports of which `which` is true.
  void remove_ports(const std::string& name, Lsi& lsi,
                    const std::function<bool(const std::string&, const Port&)>& which);
  void apply_lsi(const BridgeRow& row);
  void apply_ports(const BridgeRow& row);
  void apply_port(const std::string& name, Lsi& lsi, const InterfaceRow& row);
  void create_port(const std::string& name, Lsi& lsi, Port& port, const InterfaceRow& row);
  /// Keeps why the switch refused `what`, and logs it unless it is what it said before.
  void note_refusal(const std::string& what, const Error& refusal,
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
  /// Settings of a port's row that were applied otherwise than configured.
  [[nodiscard]] Notes notes_on(const Lsi& lsi, const Port& port) const;
  /// The same of the whole switch.
  [[nodiscard]] Notes notes_on_switch() const;

  SwitchControl& control_;
  std::optional<WorkerConfig> workers_;
  std::optional<std::string> workers_error_;
  Notes notes_;  ///< of the Open_vSwitch row
  std::optional<TlsFiles> tls_;
  std::map<std::string, Lsi> lsis_;
  std::optional<Uuid> root_;
  int64_t applied_cfg_{0};  ///< next_cfg of the last apply()
  bool refused_{false};     ///< see wants_retry()
};

}  // namespace headrace::ovsdb
