// SPDX-License-Identifier: Apache-2.0
// A kernel interface that exists, by packet sockets: one per receive queue.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "port/options.h"
#include "port/port.h"

namespace headrace::port {

/// `reason`: why it is by packet sockets, for the column `status`.
Result<std::unique_ptr<Port>> open_packet_port(const PortConfig& config, Options& options,
                                               const std::string& reason);

}  // namespace headrace::port
