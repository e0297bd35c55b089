// SPDX-License-Identifier: Apache-2.0
// The desired state: the rows of the database, joined and typed.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
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
  PortSpec spec;                        ///< `number` is LOCAL, or 0 before one is chosen
  std::optional<uint32_t> requested;    ///< ofport_request
  std::optional<uint32_t> last_number;  ///< the current ofport, if it is a usable number
  std::optional<std::string> error;     ///< why the row can't be applied, found while reading it
  Notes notes;                          ///< unsupported settings
};

/// A Port row; its settings for the interface are in the interface's spec.
struct PortRow {
  Uuid uuid;
  std::string name;
  Notes notes;
  std::vector<std::string> interfaces{};  ///< by name
};

/// A valid Mirror row. Ports are names of interfaces; `config` has no numbers yet.
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
  Notes notes{};  ///< unsupported settings of the row
};

struct BridgeRow {
  Uuid uuid;
  LsiConfig config;
  std::vector<InterfaceRow> interfaces;
  std::vector<PortRow> ports;
  std::vector<ControllerRow> controllers;
  std::vector<MirrorRow> mirrors;
  Notes notes;                  ///< unsupported settings of the row
  std::vector<RowKey> sources;  ///< the rows that all this was read from, its own included
};

struct Desired {
  std::optional<Uuid> root;  ///< the Open_vSwitch row; none before `ovs-vsctl init`
  int64_t next_cfg{0};
  WorkerConfig workers;
  std::optional<TlsFiles> tls;  ///< the SSL row, if there is one
  std::chrono::milliseconds stats_interval{5000};
  std::vector<std::shared_ptr<const BridgeRow>> bridges;  ///< sorted by name
  Notes notes;  ///< unsupported settings of the Open_vSwitch row
};

/// Joins and types the rows. A bridge is read again only if one of the rows that it was read from
/// has changed, else it is the same object as before: a change of one of a thousand costs what that
/// one has.
class DesiredReader {
 public:
  /// The desired state of the rows as they are now; takes the database's changes, so there is one
  /// reader of each. Fails only if the server violates its schema; an operator's errors become an
  /// error or a note of the row.
  Result<Desired> read(Database& database);

 private:
  using Bridge = std::shared_ptr<const BridgeRow>;

  void forget(const Uuid& bridge);
  void forget_changed(const Database::Changes& changes);
  Result<Bridge> bridge(const Database& database, const Uuid& uuid);

  std::unordered_map<Uuid, Bridge> bridges_;
  std::unordered_map<Uuid, std::vector<Uuid>> readers_;  ///< by row, the bridges read from it
};

}  // namespace headrace::ovsdb
