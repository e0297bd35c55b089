// SPDX-License-Identifier: Apache-2.0
// Conversion between OVSDB's JSON notation of values (RFC 7047, section 5.1) and C++ types.
//
// A set of one element is written as the atom, others as ["set", [...]]; a map is ["map", [[k, v],
// ...]]; a reference to a row is ["uuid", "..."].
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ovsdb/switch_control.h"

namespace headrace::ovsdb {

using Json = nlohmann::json;

/// A row's identity, in its 36-character notation.
using Uuid = std::string;

/// A row of the database: its table and UUID.
using RowKey = std::pair<std::string, Uuid>;

/// Reads the columns of one row. After the first value of a wrong type every getter returns an
/// empty value, so that one check of status() at the end suffices.
class RowReader {
 public:
  /// `columns` must outlive the reader; `table` and `row` are for error messages.
  RowReader(std::string_view table, std::string_view row, const Json& columns);

  /// A mandatory string, integer or boolean.
  std::string string(const char* column);
  int64_t integer(const char* column);
  bool boolean(const char* column);
  /// A set of at most one atom.
  std::optional<std::string> optional_string(const char* column);
  std::optional<int64_t> optional_integer(const char* column);
  /// Sets and maps of any size.
  std::vector<std::string> strings(const char* column);
  std::vector<bool> booleans(const char* column);
  std::vector<int64_t> integers(const char* column);
  std::vector<Uuid> uuids(const char* column);
  StringMap map(const char* column);
  /// A map from integers to rows.
  std::map<int64_t, Uuid> numbered_uuids(const char* column);

  /// Fails if any value had a wrong type.
  [[nodiscard]] Result<> status() const;

 private:
  std::vector<const Json*> elements(const char* column);
  void set_error(const char* column, const char* expected);

  std::string_view table_;
  std::string_view row_;
  const Json& columns_;
  std::optional<std::string> error_;
};

/// Values to write.
Json to_set(const std::vector<std::string>& strings);
Json to_map(const StringMap& map);
Json to_map(const std::map<std::string, int64_t>& map);
Json to_uuid(const Uuid& uuid);
/// The empty set: clears an optional column.
Json empty_set();
template <typename T>
Json to_optional(const std::optional<T>& value) {
  return value ? Json(*value) : empty_set();
}

/// Whether `text` is a UUID in its 36-character notation.
bool is_uuid(std::string_view text);

}  // namespace headrace::ovsdb
