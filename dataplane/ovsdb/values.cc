// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/values.h"

#include <algorithm>
#include <cctype>

namespace headrace::ovsdb {
namespace {

/// The payload of ["tag", payload], or null.
const Json* tagged(const Json& value, std::string_view tag) {
  if (value.is_array() && value.size() == 2 && value[0].is_string() &&
      value[0].get_ref<const std::string&>() == tag) {
    return &value[1];
  }
  return nullptr;
}

Json tag(const char* name, Json payload) {
  Json value = Json::array();
  value.push_back(name);
  value.push_back(std::move(payload));
  return value;
}

template <typename Map>
Json map_notation(const Map& map) {
  Json pairs = Json::array();
  for (const auto& [key, value] : map) {
    Json pair = Json::array();
    pair.push_back(key);
    pair.push_back(value);
    pairs.push_back(std::move(pair));
  }
  return tag("map", std::move(pairs));
}

}  // namespace

RowReader::RowReader(std::string_view table, std::string_view row, const Json& columns)
    : table_(table), row_(row), columns_(columns) {}

void RowReader::set_error(const char* column, const char* expected) {
  if (!error_) {
    error_ = fmt::format("{} {}: column {} is not {}", table_, row_, column, expected);
  }
}

std::vector<const Json*> RowReader::elements(const char* column) {
  std::vector<const Json*> found;
  const auto it = columns_.find(column);
  if (it == columns_.end()) {
    set_error(column, "there");
    return found;
  }
  if (const Json* members = tagged(*it, "set")) {
    if (!members->is_array()) {
      set_error(column, "a set");
      return found;
    }
    for (const Json& member : *members) {
      found.push_back(&member);
    }
  } else {
    found.push_back(&*it);
  }
  return found;
}

std::optional<std::string> RowReader::optional_string(const char* column) {
  auto all = strings(column);
  if (all.size() > 1) {
    set_error(column, "at most one string");
  }
  return all.empty() ? std::nullopt : std::optional(std::move(all.front()));
}

std::string RowReader::string(const char* column) {
  auto value = optional_string(column);
  if (!value) {
    set_error(column, "a string");
  }
  return std::move(value).value_or("");
}

std::optional<int64_t> RowReader::optional_integer(const char* column) {
  const auto all = elements(column);
  if (all.empty()) {
    return std::nullopt;
  }
  if (all.size() > 1 || !all.front()->is_number_integer()) {
    set_error(column, "at most one integer");
    return std::nullopt;
  }
  return all.front()->get<int64_t>();
}

int64_t RowReader::integer(const char* column) {
  const auto value = optional_integer(column);
  if (!value) {
    set_error(column, "an integer");
  }
  return value.value_or(0);
}

std::vector<bool> RowReader::booleans(const char* column) {
  std::vector<bool> found;
  for (const Json* element : elements(column)) {
    if (!element->is_boolean()) {
      set_error(column, "of booleans");
      return {};
    }
    found.push_back(element->get<bool>());
  }
  return found;
}

bool RowReader::boolean(const char* column) {
  const auto all = booleans(column);
  if (all.size() != 1) {
    set_error(column, "a boolean");
    return false;
  }
  return all.front();
}

std::vector<int64_t> RowReader::integers(const char* column) {
  std::vector<int64_t> found;
  for (const Json* element : elements(column)) {
    if (!element->is_number_integer()) {
      set_error(column, "of integers");
      return {};
    }
    found.push_back(element->get<int64_t>());
  }
  return found;
}

std::vector<std::string> RowReader::strings(const char* column) {
  std::vector<std::string> found;
  for (const Json* element : elements(column)) {
    if (!element->is_string()) {
      set_error(column, "of strings");
      return {};
    }
    found.push_back(element->get<std::string>());
  }
  return found;
}

std::vector<Uuid> RowReader::uuids(const char* column) {
  std::vector<Uuid> found;
  for (const Json* element : elements(column)) {
    const Json* uuid = tagged(*element, "uuid");
    if (uuid == nullptr || !uuid->is_string() || !is_uuid(uuid->get_ref<const std::string&>())) {
      set_error(column, "of UUIDs");
      return {};
    }
    found.push_back(uuid->get<std::string>());
  }
  return found;
}

StringMap RowReader::map(const char* column) {
  StringMap found;
  const auto it = columns_.find(column);
  const Json* pairs = it == columns_.end() ? nullptr : tagged(*it, "map");
  if (pairs == nullptr || !pairs->is_array()) {
    set_error(column, "a map");
    return found;
  }
  for (const Json& pair : *pairs) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      set_error(column, "a map of strings");
      return {};
    }
    found.emplace(pair[0].get<std::string>(), pair[1].get<std::string>());
  }
  return found;
}

std::map<int64_t, Uuid> RowReader::numbered_uuids(const char* column) {
  std::map<int64_t, Uuid> found;
  const auto it = columns_.find(column);
  const Json* pairs = it == columns_.end() ? nullptr : tagged(*it, "map");
  if (pairs == nullptr || !pairs->is_array()) {
    set_error(column, "a map");
    return found;
  }
  for (const Json& pair : *pairs) {
    const bool is_pair = pair.is_array() && pair.size() == 2 && pair[0].is_number_integer();
    const Json* uuid = is_pair ? tagged(pair[1], "uuid") : nullptr;
    if (uuid == nullptr || !uuid->is_string()) {
      set_error(column, "a map from integers to rows");
      return {};
    }
    found.emplace(pair[0].get<int64_t>(), uuid->get<std::string>());
  }
  return found;
}

Result<> RowReader::status() const {
  if (error_) {
    return fail("{}", *error_);
  }
  return {};
}

Json to_set(const std::vector<std::string>& strings) {
  Json members = Json::array();
  for (const auto& member : strings) {
    members.push_back(member);
  }
  return tag("set", std::move(members));
}

Json to_map(const StringMap& map) {
  return map_notation(map);
}

Json to_map(const std::map<std::string, int64_t>& map) {
  return map_notation(map);
}

Json to_uuid(const Uuid& uuid) {
  return tag("uuid", uuid);
}

Json empty_set() {
  return tag("set", Json::array());
}

bool is_uuid(std::string_view text) {
  if (text.size() != 36) {
    return false;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : std::isxdigit(static_cast<unsigned char>(text[i])) == 0) {
      return false;
    }
  }
  return true;
}

}  // namespace headrace::ovsdb
