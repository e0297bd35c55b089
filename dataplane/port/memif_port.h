// SPDX-License-Identifier: Apache-2.0
// Ports of type `memif`: shared memory with another process on this machine (VPP, libmemif, DPDK's
// net_memif, headrace-vnf) by our own end-point (memif/endpoint.h), which outlives its peers and
// finds them again.
#pragma once

#include <memory>

#include "base/result.h"
#include "port/options.h"
#include "port/port.h"

namespace headrace::port {

Result<std::unique_ptr<Port>> open_memif_port(const PortConfig& config, Options& options);

}  // namespace headrace::port
