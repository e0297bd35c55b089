// SPDX-License-Identifier: Apache-2.0
// The desired state: the rows of the database, joined and typed.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ovsdb/database.h"
#include "ovsdb/notes.h"
#include "ovsdb/switch_control.h"

namespace headrace::ovsdb {

/// OpenFlow 1.0's number of an LSI's own port, which the column `ofport` uses for LOCAL.
inline constexpr int64_t kOfportLocal = 65534;
/// The largest number that the column `ofport` can have for another port (ofport_request's range).
inline constexpr int64_t kOfportMax = 65279;

struct InterfaceRow {
  Uuid uuid;
  PortSpec spec;                         ///< `number` is LOCAL or 0, not chosen yet
  std::optional<uint32_t> requested;     ///< ofport_request
  std::optional<uint32_t> last_number;   ///< ofport as it stands, if it is a usable number
  std::optional<std::string> complaint;  ///< why the row can't be served, found while reading it
  Notes notes;                           ///< what of it is not served
};

/// A Port row; what it holds for its interface is in the latter's spec.
struct PortRow {
  Uuid uuid;
  std::string name;
  Notes notes;
  std::vector<std::string> interfaces{};  ///< by name
};

/// A Mirror row that can be served. Ports are names of interfaces; `config` has no numbers yet.
struct MirrorRow {
  Uuid uuid;
  std::string name{};
  pipeline::MirrorConfig config{};
  std::vector<std::string> received{};
  std::vector<std::string> sent{};
  std::optional<std::string> output{};
};

struct ControllerRow {
  Uuid uuid;
  ControllerSpec spec;
  Notes notes{};  ///< what of the row is not served
};

struct BridgeRow {
  Uuid uuid;
  LsiConfig config;
  std::vector<InterfaceRow> interfaces;
  std::vector<PortRow> ports;
  std::vector<ControllerRow> controllers;
  std::vector<MirrorRow> mirrors;
  Notes notes;  ///< what of the row is not served
};

struct Desired {
  std::optional<Uuid> root;  ///< the Open_vSwitch row; none before `ovs-vsctl init`
  int64_t next_cfg{0};
  WorkerConfig workers;
  std::optional<TlsFiles> tls;  ///< the SSL row, if there is one
  std::chrono::milliseconds stats_interval{5000};
  std::vector<BridgeRow> bridges;  ///< sorted by name
  Notes notes;                     ///< what of the Open_vSwitch row is not served
};

/// Joins and types the rows. Fails only if the server breaks its own schema; what an operator can
/// get wrong becomes a complaint or a note on the row.
Result<Desired> read_desired(const Database& database);

}  // namespace headrace::ovsdb
