// SPDX-License-Identifier: Apache-2.0
#include "vnf/config_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace headrace::vnf {

ConfigReader::ConfigReader(const Json& value, std::string path, ConfigErrors& errors)
    : value_(&value), path_(std::move(path)), errors_(&errors) {
  if (!value.is_object()) {
    errors.push_back(fmt::format("{}: not an object", path_.empty() ? "(top)" : path_));
  }
}

const Json& ConfigReader::object() const {
  static const Json kEmpty = Json::object();
  return value_->is_object() ? *value_ : kEmpty;
}

std::string ConfigReader::path_of(const char* key) const {
  return path_.empty() ? key : fmt::format("{}.{}", path_, key);
}

void ConfigReader::add_error(const char* key, const std::string& what) {
  errors_->push_back(fmt::format("{}: {}", path_of(key), what));
}

const Json* ConfigReader::find(const char* key, bool mandatory) {
  read_.emplace(key);
  const auto it = object().find(key);
  if (it != object().end()) return &*it;
  if (mandatory) add_error(key, "missing");
  return nullptr;
}

const Json* ConfigReader::raw(const char* key) {
  return find(key, false);
}

std::string ConfigReader::string(const char* key, std::optional<std::string> fallback) {
  const Json* value = find(key, !fallback);
  if (value == nullptr) return std::move(fallback).value_or("");
  if (value->is_string()) return value->get<std::string>();
  add_error(key, "not a string");
  return "";
}

uint64_t ConfigReader::integer(const char* key, uint64_t least, uint64_t most,
                               std::optional<uint64_t> fallback) {
  const Json* value = find(key, !fallback);
  if (value == nullptr) return fallback.value_or(least);
  if (value->is_number_unsigned()) {
    const auto number = value->get<uint64_t>();
    if (number >= least && number <= most) return number;
  }
  add_error(key, fmt::format("{} is not an integer from {} to {}", value->dump(), least, most));
  return least;
}

double ConfigReader::number(const char* key, double least, double most,
                            std::optional<double> fallback) {
  const Json* value = find(key, !fallback);
  if (value == nullptr) return fallback.value_or(least);
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (number >= least && number <= most) return number;
  }
  add_error(key, fmt::format("{} is not a number from {} to {}", value->dump(), least, most));
  return least;
}

bool ConfigReader::boolean(const char* key, bool fallback) {
  const Json* value = find(key, false);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  add_error(key, "not true or false");
  return fallback;
}

size_t ConfigReader::choice(const char* key, std::initializer_list<std::string_view> words,
                            std::optional<size_t> fallback) {
  const Json* value = find(key, !fallback);
  if (value == nullptr) return fallback.value_or(0);
  const auto word = value->is_string() ? value->get<std::string>() : std::string{};
  const auto it = std::find(words.begin(), words.end(), word);
  if (it != words.end()) return static_cast<size_t>(it - words.begin());
  add_error(key, fmt::format("{} is none of {}", value->dump(), fmt::join(words, ", ")));
  return fallback.value_or(0);
}

MacAddress ConfigReader::mac(const char* key) {
  if (find(key, true) == nullptr) return {};
  return optional_mac(key).value_or(MacAddress{});
}

std::optional<MacAddress> ConfigReader::optional_mac(const char* key) {
  const Json* value = find(key, false);
  if (value == nullptr) return std::nullopt;
  const auto mac = value->is_string() ? packet::parse_mac(value->get<std::string>()) : std::nullopt;
  if (!mac)
    add_error(key, fmt::format("{} is not a MAC address (xx:xx:xx:xx:xx:xx)", value->dump()));
  return mac;
}

Ipv4Address ConfigReader::ipv4(const char* key) {
  if (find(key, true) == nullptr) return 0;
  return optional_ipv4(key).value_or(0);
}

std::optional<Ipv4Address> ConfigReader::optional_ipv4(const char* key) {
  const Json* value = find(key, false);
  if (value == nullptr) return std::nullopt;
  const auto address = value->is_string() ? parse_ipv4(value->get<std::string>()) : std::nullopt;
  if (!address) add_error(key, fmt::format("{} is not an IPv4 address", value->dump()));
  return address;
}

Ipv4Prefix ConfigReader::ipv4_prefix(const char* key, std::optional<Ipv4Prefix> fallback) {
  const Json* value = find(key, !fallback);
  if (value == nullptr) return fallback.value_or(Ipv4Prefix{});
  const auto prefix =
      value->is_string() ? parse_ipv4_prefix(value->get<std::string>()) : std::nullopt;
  if (!prefix) {
    add_error(key, fmt::format("{} is not an IPv4 prefix (a.b.c.d/length, bits after it zero)",
                               value->dump()));
  }
  return prefix.value_or(Ipv4Prefix{});
}

std::vector<std::string> ConfigReader::strings(const char* key) {
  std::vector<std::string> found;
  const Json* value = find(key, false);
  if (value == nullptr) return found;
  if (!value->is_array() ||
      !std::all_of(value->begin(), value->end(), [](const Json& e) { return e.is_string(); })) {
    add_error(key, "not a list of strings");
    return found;
  }
  for (const Json& element : *value) found.push_back(element.get<std::string>());
  return found;
}

ConfigReader ConfigReader::optional_child(const char* key) {
  static const Json kEmpty = Json::object();
  const Json* value = find(key, false);
  return {value == nullptr ? kEmpty : *value, path_of(key), *errors_};
}

ConfigReader ConfigReader::child(const char* key) {
  find(key, true);
  return optional_child(key);
}

std::vector<ConfigReader> ConfigReader::children(const char* key) {
  std::vector<ConfigReader> found;
  const Json* value = find(key, false);
  if (value == nullptr) return found;
  if (!value->is_array()) {
    add_error(key, "not a list");
    return found;
  }
  for (size_t i = 0; i < value->size(); ++i) {
    found.emplace_back((*value)[i], fmt::format("{}[{}]", path_of(key), i), *errors_);
  }
  return found;
}

void ConfigReader::finish() {
  for (const auto& [key, value] : object().items()) {
    if (!read_.contains(key)) add_error(key.c_str(), "unknown member");
  }
}

}  // namespace headrace::vnf
