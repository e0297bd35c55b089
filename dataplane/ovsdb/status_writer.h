// SPDX-License-Identifier: Apache-2.0
// Turns status rows into the smallest transaction: only the columns that differ from what was
// written last.
#pragma once

#include "ovsdb/reconciler.h"
#include "ovsdb/values.h"

namespace headrace::ovsdb {

class StatusWriter {
 public:
  /// The "update" operations (RFC 7047, section 5.2.3) that bring the database to `rows`, and
  /// remembers them as written. `cur_cfg` is in the same transaction as all else, so that who waits
  /// for it finds every port number. Empty if nothing changed.
  Json operations(const StatusRows& rows);

  /// Forgets what was written: after a new session or a failed transaction everything is written
  /// again.
  void forget() { written_.clear(); }

  /// Forgets rows that `rows` no longer has, so that memory doesn't grow with rows long gone.
  void forget_all_but(const StatusRows& rows);

 private:
  StatusRows written_;
};

}  // namespace headrace::ovsdb
