// SPDX-License-Identifier: Apache-2.0
// One function per kind of port: its options, checked, as a request for a device.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "port/ethdev.h"
#include "port/options.h"
#include "port/port.h"

namespace headrace::port {

/// dpdk.cc: any device by options:dpdk-devargs.
Result<EthdevRequest> dpdk_request(const PortConfig& config, Options& options);
/// How a port of type `system` reaches its interface.
struct SystemChoice {
  std::optional<EthdevRequest> xdp{};  ///< by AF_XDP; none: by packet sockets
  bool or_packet_socket{false};        ///< if that can't be
  std::string reason;                  ///< of packet sockets, if they are it
};
/// system.cc: a kernel interface that exists.
Result<SystemChoice> choose_system_mode(const PortConfig& config, Options& options);

}  // namespace headrace::port
