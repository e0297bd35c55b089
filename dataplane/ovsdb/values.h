// SPDX-License-Identifier: Apache-2.0
// OVSDB's JSON notation for values (RFC 7047, section 5.1) to and from C++ types.
//
// An atom stands for itself; a set is an atom when it has one element and ["set", [...]] else; a
// map is ["map", [[k, v], ...]]; a reference to a row is ["uuid", "..."].
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ovsdb/switch_control.h"

namespace headrace::ovsdb {

using Json = nlohmann::json;

/// A row's identity, in its 36-character notation.
using Uuid = std::string;

/// Reads the columns of one row. The first value of a wrong shape is remembered and every getter
/// then returns an empty value, so that a reader needs one check at its end.
class RowReader {
 public:
  /// `columns` must outlive the reader; `table` and `row` are for the error's words.
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

  /// Whether every value so far had its shape.
  [[nodiscard]] Result<> status() const;

 private:
  std::vector<const Json*> elements(const char* column);
  void complain(const char* column, const char* expected);

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
