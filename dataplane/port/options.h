// SPDX-License-Identifier: Apache-2.0
// Reads a port's options: each is read once, and options that were not read are an error, so that
// a misspelt option never goes unnoticed.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "port/port.h"

namespace headrace::port {

class Options {
 public:
  /// `config` must outlive this.
  explicit Options(const PortConfig& config) : config_(config) {}

  /// The option's text; nothing if it is absent.
  std::optional<std::string> text(const std::string& key);
  /// The text, fit for a devargs string: an error if it is absent, empty or has a comma.
  Result<std::string> required(const std::string& key);
  /// As required(), but absence is no error and gives `fallback`.
  Result<std::string> plain(const std::string& key, const std::string& fallback);
  /// The path of a Unix socket, which the kernel holds to 107 octets (unix(7)).
  Result<std::string> socket_path(const std::string& key);
  /// A whole number in [low, high].
  Result<uint32_t> number(const std::string& key, uint32_t fallback, uint32_t low, uint32_t high);
  /// A power of two in [low, high].
  Result<uint32_t> power_of_two(const std::string& key, uint32_t fallback, uint32_t low,
                                uint32_t high);
  /// "true" or "false".
  Result<bool> flag(const std::string& key, bool fallback);

  /// Call last: an error that names the options that were not read.
  [[nodiscard]] Result<> finish() const;

 private:
  const PortConfig& config_;
  std::set<std::string> asked_;
};

/// An error if a path is too long for a Unix socket.
Result<> check_socket_path(const std::string& port, const std::string& path);

/// A vdev's name: the driver's, then the port's with all but letters, digits, '_' and '-' replaced.
/// Names that differ stay different (a hash is added where characters were replaced or cut).
std::string vdev_name(std::string_view driver, std::string_view port);

}  // namespace headrace::port
