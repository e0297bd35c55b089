// SPDX-License-Identifier: Apache-2.0
// Reads the rows of a port: Port, Interface, QoS and Queue.
#pragma once

#include "ovsdb/desired.h"

namespace headrace::ovsdb {

/// Adds one Port row with its interfaces to its bridge. Fails only if the server violates its
/// schema.
Result<> read_port(const Database& database, const Uuid& uuid, BridgeRow& bridge);

/// The value of a key; nothing if it is absent.
std::optional<std::string> lookup(const StringMap& map, const std::string& key);

}  // namespace headrace::ovsdb
