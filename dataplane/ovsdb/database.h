// SPDX-License-Identifier: Apache-2.0
// The client's copy of the database: the rows and columns that it monitors.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ovsdb/values.h"

namespace headrace::ovsdb {

/// Rows by table and UUID, each an object of columns in OVSDB's notation.
class Database {
 public:
  using Rows = std::map<Uuid, Json>;

  /// The "monitor-requests" of RFC 7047, section 4.1.5, for the columns that Headrace reads.
  /// Columns that it only writes are not monitored: each write would come back as an update.
  static Json monitor_requests();

  /// Applies "table-updates" (RFC 7047, section 4.1.6). If they are malformed, fails and changes
  /// nothing.
  Result<> apply(const Json& table_updates);

  /// The rows of a table; empty if there are none.
  [[nodiscard]] const Rows& table(std::string_view name) const;

  void clear();

  /// What was changed by all apply() since the last call.
  struct Changes {
    bool all{true};          ///< every row may be another
    std::vector<Uuid> rows;  ///< that are new, changed or gone; may have duplicates
  };
  Changes take_changes();

 private:
  std::map<std::string, Rows, std::less<>> tables_;
  Changes changes_;
};

}  // namespace headrace::ovsdb
