// SPDX-License-Identifier: Apache-2.0
// Reads a JSON configuration and reports all errors with their JSON paths.
//
// A reader is a view of one JSON object. Getters always return a usable value and add errors to the
// shared list, so that the operator sees all of them at once:
//   function.routes[2].prefix: '10.0.0.0/33' is not an IPv4 prefix
// A member that no getter read is an error too; finish() adds those.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "vnf/net/address.h"

namespace headrace::vnf {

using Json = nlohmann::json;

/// One message per error, each starting with the path.
using ConfigErrors = std::vector<std::string>;

class ConfigReader {
 public:
  /// A view of `value`, which must outlive the reader. Adds an error unless it is an object.
  ConfigReader(const Json& value, std::string path, ConfigErrors& errors);

  [[nodiscard]] bool has(const char* key) const { return object().contains(key); }
  [[nodiscard]] const std::string& path() const { return path_; }

  /// Without a default the member is mandatory. Ranges are inclusive.
  std::string string(const char* key, std::optional<std::string> fallback = std::nullopt);
  uint64_t integer(const char* key, uint64_t least, uint64_t most,
                   std::optional<uint64_t> fallback = std::nullopt);
  double number(const char* key, double least, double most,
                std::optional<double> fallback = std::nullopt);
  bool boolean(const char* key, bool fallback);
  /// The index of the word in `words`.
  size_t choice(const char* key, std::initializer_list<std::string_view> words,
                std::optional<size_t> fallback = std::nullopt);
  MacAddress mac(const char* key);
  std::optional<MacAddress> optional_mac(const char* key);
  Ipv4Address ipv4(const char* key);
  std::optional<Ipv4Address> optional_ipv4(const char* key);
  /// `otherwise` is used when the member is absent.
  Ipv4Prefix ipv4_prefix(const char* key, std::optional<Ipv4Prefix> fallback = std::nullopt);
  /// A list of strings; empty if absent.
  std::vector<std::string> strings(const char* key);
  /// A nested object; an empty one, without an error, if absent.
  ConfigReader optional_child(const char* key);
  ConfigReader child(const char* key);
  /// A list of objects; empty if absent.
  std::vector<ConfigReader> children(const char* key);
  /// The raw member, or null.
  const Json* raw(const char* key);

  /// Adds an error about this object's member that only the caller can detect.
  void add_error(const char* key, const std::string& what);
  /// Whether the list has any error, of this reader or another.
  [[nodiscard]] bool failed() const { return !errors_->empty(); }
  /// Adds an error for each member that was not read. Call after all getters.
  void finish();

 private:
  [[nodiscard]] const Json& object() const;
  const Json* find(const char* key, bool mandatory);
  [[nodiscard]] std::string path_of(const char* key) const;

  const Json* value_;
  std::string path_;
  ConfigErrors* errors_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace headrace::vnf
