// SPDX-License-Identifier: Apache-2.0
#include "port/options.h"

#include <rte_dev.h>
#include <sys/un.h>

#include <bit>
#include <charconv>

namespace headrace::port {

std::optional<std::string> Options::text(const std::string& key) {
  asked_.insert(key);
  const auto found = config_.options.find(key);
  if (found == config_.options.end()) return std::nullopt;
  return found->second;
}

Result<std::string> Options::required(const std::string& key) {
  const std::optional<std::string> value = text(key);
  if (!value) return fail("{}: type {} needs options:{}", config_.name, config_.type, key);
  if (value->empty() || value->find(',') != std::string::npos) {
    return fail("{}: options:{} is '{}': it must not be empty or have a comma", config_.name, key,
                *value);
  }
  return *value;
}

Result<std::string> Options::plain(const std::string& key, const std::string& fallback) {
  if (!text(key)) return fallback;
  return required(key);
}

Result<> check_socket_path(const std::string& port, const std::string& path) {
  constexpr size_t kMost = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() <= kMost) return {};
  return fail("{}: the socket's path {} has {} octets: at most {} are possible", port, path,
              path.size(), kMost);
}

Result<std::string> Options::socket_path(const std::string& key) {
  Result<std::string> path = required(key);
  if (!path) return path;
  if (Result<> checked = check_socket_path(config_.name, *path); !checked) {
    return tl::unexpected(checked.error());
  }
  return path;
}

Result<uint32_t> Options::number(const std::string& key, uint32_t fallback, uint32_t low,
                                 uint32_t high) {
  const std::optional<std::string> value = text(key);
  if (!value) return fallback;
  uint32_t parsed = 0;
  const char* end = value->data() + value->size();
  const auto [stop, error] = std::from_chars(value->data(), end, parsed);
  if (error != std::errc{} || stop != end || parsed < low || parsed > high) {
    return fail("{}: options:{} is '{}': it must be a number from {} to {}", config_.name, key,
                *value, low, high);
  }
  return parsed;
}

Result<uint32_t> Options::power_of_two(const std::string& key, uint32_t fallback, uint32_t low,
                                       uint32_t high) {
  Result<uint32_t> value = number(key, fallback, low, high);
  if (value && !std::has_single_bit(*value)) {
    return fail("{}: options:{} is {}: it must be a power of two", config_.name, key, *value);
  }
  return value;
}

Result<bool> Options::flag(const std::string& key, bool fallback) {
  const std::optional<std::string> value = text(key);
  if (!value) return fallback;
  if (*value == "true") return true;
  if (*value == "false") return false;
  return fail("{}: options:{} is '{}': it must be true or false", config_.name, key, *value);
}

Result<> Options::finish() const {
  for (const auto& [key, value] : config_.options) {
    if (!asked_.contains(key)) {
      return fail("{}: type {} has no options:{}", config_.name, config_.type, key);
    }
  }
  return {};
}

std::string vdev_name(std::string_view driver, std::string_view port) {
  constexpr size_t kMaxName = RTE_DEV_NAME_MAX_LEN - 1;
  std::string name = fmt::format("{}_{}", driver, port);
  bool changed = false;
  for (char& c : name) {
    const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-';
    if (!safe) {
      c = '_';
      changed = true;
    }
  }
  const std::string tail = fmt::format("_{:08x}", std::hash<std::string_view>{}(port)&0xffffffff);
  if (name.size() > kMaxName - tail.size()) {
    name.resize(kMaxName - tail.size());
    changed = true;
  }
  return changed ? name + tail : name;
}

}  // namespace headrace::port
