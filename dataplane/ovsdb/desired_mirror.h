// SPDX-License-Identifier: Apache-2.0
// Reads the rows of a bridge's mirrors: table Mirror.
#pragma once

#include <vector>

#include "ovsdb/desired.h"

namespace headrace::ovsdb {

/// Adds the mirrors of a bridge whose ports have been read. Fails only if the server violates its
/// schema; an invalid mirror is left out, and a note of the bridge gives the reason.
Result<> read_mirrors(const Database& database, const std::vector<Uuid>& uuids, BridgeRow& bridge);

}  // namespace headrace::ovsdb
