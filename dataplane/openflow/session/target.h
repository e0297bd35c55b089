// SPDX-License-Identifier: Apache-2.0
// Connection targets in Open vSwitch's notation: `tcp:127.0.0.1:6653`, `ptcp:6653:[::1]`,
// `ssl:127.0.0.1`, `pssl:`, `unix:/run/x.sock`, `punix:/run/x.mgmt`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace headrace::openflow {

/// One parsed target.
struct Target {
  bool passive{false};  ///< we listen
  bool is_unix{false};  ///< use `path`, else `address` and `port`
  bool is_tls{false};
  std::string path;
  std::string address;  ///< an IPv4 or IPv6 address; passive and empty: any
  uint16_t port{0};
};

/// Parses a target; the port defaults to 6653.
Result<Target> parse_target(std::string_view text);

}  // namespace headrace::openflow
