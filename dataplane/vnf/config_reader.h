// SPDX-License-Identifier: Apache-2.0
// Reads a JSON configuration and reports all its mistakes by JSON path.
//
// A reader is a view on one JSON object. Getters return a usable value in any case and note what
// was wrong in the shared list, so that the operator sees all mistakes at once:
//   function.routes[2].prefix: '10.0.0.0/33' is not an IPv4 prefix
// A member that no getter read is a mistake too; finish() notes those.
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

/// What was wrong, one message per mistake, each starting with the path.
using ConfigErrors = std::vector<std::string>;

class ConfigReader {
 public:
  /// A view on `value`, which must outlive the reader. Notes a mistake unless it is an object.
  ConfigReader(const Json& value, std::string path, ConfigErrors& errors);

  [[nodiscard]] bool has(const char* key) const { return object().contains(key); }
  [[nodiscard]] const std::string& path() const { return path_; }

  /// Without a default the member is mandatory. Ranges are inclusive.
  std::string string(const char* key, std::optional<std::string> otherwise = std::nullopt);
  uint64_t integer(const char* key, uint64_t least, uint64_t most,
                   std::optional<uint64_t> otherwise = std::nullopt);
  double number(const char* key, double least, double most,
                std::optional<double> otherwise = std::nullopt);
  bool boolean(const char* key, bool otherwise);
  /// The index of the word in `words`.
  size_t choice(const char* key, std::initializer_list<std::string_view> words,
                std::optional<size_t> otherwise = std::nullopt);
  MacAddress mac(const char* key);
  std::optional<MacAddress> optional_mac(const char* key);
  Ipv4Address ipv4(const char* key);
  std::optional<Ipv4Address> optional_ipv4(const char* key);
  /// `otherwise` is used when the member is absent.
  Ipv4Prefix ipv4_prefix(const char* key, std::optional<Ipv4Prefix> otherwise = std::nullopt);
  /// A list of strings; empty if absent.
  std::vector<std::string> strings(const char* key);
  /// A nested object; an empty one, without a note, if absent.
  ConfigReader optional_child(const char* key);
  ConfigReader child(const char* key);
  /// A list of objects; empty if absent.
  std::vector<ConfigReader> children(const char* key);
  /// The raw member, or null.
  const Json* raw(const char* key);

  /// Notes a mistake of this object's member that only the caller can see.
  void complain(const char* key, const std::string& what);
  /// Whether any mistake has been noted so far, here or elsewhere.
  [[nodiscard]] bool failed() const { return !errors_->empty(); }
  /// Notes members that were not read. Call once all getters were.
  void finish();

 private:
  [[nodiscard]] const Json& object() const;
  const Json* find(const char* key, bool mandatory);
  [[nodiscard]] std::string path_of(const char* key) const;

  const Json* value_;
  std::string path_;
  ConfigErrors* errors_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace headrace::vnf
