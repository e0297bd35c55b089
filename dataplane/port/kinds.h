// SPDX-License-Identifier: Apache-2.0
// One function per kind of port: its options, checked, as a request for a device.
#pragma once

#include "base/result.h"
#include "port/ethdev.h"
#include "port/options.h"
#include "port/port.h"

namespace headrace::port {

/// dpdk.cc: any device by options:dpdk-devargs.
Result<EthdevRequest> dpdk_request(const PortConfig& config, Options& options);
/// tap.cc: types internal and tap, a kernel interface that we make.
Result<EthdevRequest> tap_request(const PortConfig& config, Options& options);
/// system.cc: a kernel interface that exists.
Result<EthdevRequest> system_request(const PortConfig& config, Options& options);

}  // namespace headrace::port
