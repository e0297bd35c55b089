// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/status_writer.h"

namespace headrace::ovsdb {

Json StatusWriter::operations(const StatusRows& rows) {
  Json operations = Json::array();
  for (const auto& [key, columns] : rows) {
    Json& before = written_[key];
    Json changed = Json::object();
    for (const auto& [column, value] : columns.items()) {
      if (const auto it = before.find(column); it == before.end() || *it != value) {
        changed[column] = value;
        before[column] = value;
      }
    }
    if (changed.empty()) {
      continue;
    }
    Json is_row = Json::array();
    is_row.push_back("_uuid");
    is_row.push_back("==");
    is_row.push_back(to_uuid(key.second));
    Json where = Json::array();
    where.push_back(std::move(is_row));
    operations.push_back(Json{{"op", "update"},
                              {"table", key.first},
                              {"where", std::move(where)},
                              {"row", std::move(changed)}});
  }
  return operations;
}

void StatusWriter::drop(const std::vector<RowKey>& rows) {
  for (const auto& row : rows) {
    written_.erase(row);
  }
}

}  // namespace headrace::ovsdb
