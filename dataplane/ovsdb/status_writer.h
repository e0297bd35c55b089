// SPDX-License-Identifier: Apache-2.0
// Converts status rows to a minimal transaction: only the columns that differ from the values
// written last.
#pragma once

#include <vector>

#include "ovsdb/reconciler.h"
#include "ovsdb/values.h"

namespace headrace::ovsdb {

class StatusWriter {
 public:
  /// The "update" operations (RFC 7047, section 5.2.3) that bring the database to `rows`, which are
  /// recorded as written. `cur_cfg` is in the same transaction, so that a client that waits for it
  /// finds every port number. Empty if nothing changed.
  Json operations(const StatusRows& rows);

  /// Clears the record: after a new session or a failed transaction everything is written again.
  void forget() { written_.clear(); }

  /// Forgets rows that are gone, so that memory doesn't grow with them.
  void drop(const std::vector<RowKey>& rows);

 private:
  StatusRows written_;
};

}  // namespace headrace::ovsdb
