// SPDX-License-Identifier: Apache-2.0
// Reads the members of a JSON object, with errors that name the member: "/streams/0/flows: ...".
//
// Use: make a reader, call required() and optional() for each member, then finish(), which returns
// the first error. Members that were not read are errors too, so that a misspelt name is not
// silently ignored.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace headrace::traffic {

/// The value of a non-negative integer, whichever way JSON stores it.
inline std::optional<uint64_t> whole_number(const nlohmann::json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (!value.is_number_integer() || value.get<int64_t>() < 0) return std::nullopt;
  return static_cast<uint64_t>(value.get<int64_t>());
}

class ParamReader {
 public:
  /// Reads `object`, which is at `path` ("" at the top). It must outlive the reader.
  ParamReader(const nlohmann::json& object, std::string path)
      : object_(object), path_(std::move(path)) {
    if (!object_.is_object()) set_error(path_, "must be an object");
  }

  /// Reads a mandatory member. On error `out` keeps its value.
  template <typename T>
  void required(const char* key, T& out) {
    if (!optional(key, out) && object_.is_object()) set_error(path_ + "/" + key, "is missing");
  }

  /// Reads a member if it is present; returns whether it is. null counts as absent.
  template <typename T>
  bool optional(const char* key, T& out) {
    read_.insert(key);
    if (!object_.is_object()) return false;
    const auto found = object_.find(key);
    if (found == object_.end() || found->is_null()) return false;
    read(path_ + "/" + key, *found, out);
    return true;
  }

  /// Reports an invalid value of `key`, unless there was an error before.
  template <typename... Args>
  void reject(std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
    set_error(path_ + "/" + std::string(key), fmt::format(format, std::forward<Args>(args)...));
  }

  /// The path of member `key`, for messages and for readers of nested objects.
  [[nodiscard]] std::string path(std::string_view key) const {
    return path_ + "/" + std::string(key);
  }

  /// Nothing, or the first error (code bad_params).
  [[nodiscard]] Result<> finish() {
    if (object_.is_object()) {
      for (const auto& [key, value] : object_.items()) {
        if (!read_.contains(key)) set_error(path_ + "/" + key, "unknown member");
      }
    }
    if (!error_.empty()) return fail_as("bad_params", "{}", error_);
    return {};
  }

 private:
  void set_error(const std::string& where, std::string_view what) {
    if (error_.empty()) error_ = fmt::format("{}: {}", where.empty() ? "params" : where, what);
  }

  template <typename T>
  void read(const std::string& where, const nlohmann::json& value, T& out) {
    if constexpr (std::is_same_v<T, nlohmann::json>) {
      out = value;
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!value.is_boolean()) return set_error(where, "must be true or false");
      out = value.get<bool>();
    } else if constexpr (std::is_floating_point_v<T>) {
      if (!value.is_number()) return set_error(where, "must be a number");
      out = value.get<T>();
    } else if constexpr (std::is_integral_v<T>) {
      static_assert(std::is_unsigned_v<T>);
      const std::optional<uint64_t> number = whole_number(value);
      if (!number || !std::in_range<T>(*number)) {
        return set_error(where, fmt::format("must be a whole number from 0 to {}",
                                            static_cast<uint64_t>(std::numeric_limits<T>::max())));
      }
      out = static_cast<T>(*number);
    } else {
      static_assert(std::is_same_v<T, std::string>);
      if (!value.is_string()) return set_error(where, "must be a string");
      out = value.get<std::string>();
    }
  }

  const nlohmann::json& object_;
  std::string path_;
  std::set<std::string, std::less<>> read_;
  std::string error_;
};

}  // namespace headrace::traffic
