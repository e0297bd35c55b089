// SPDX-License-Identifier: Apache-2.0
// The port kind `shm`: a VNF by shared memory, without copies inside its trust group.
//
// options:group names the group (and its socket, <rundir>/<group>.shm); ports, buffers, buffer-size
// and ring-size are taken from the group's first port.
#pragma once

#include <memory>

#include "port/options.h"
#include "port/port.h"

namespace headrace::port {

/// Opens the port; the error says which option is wrong or what could not be had.
Result<std::unique_ptr<Port>> open_shm_port(const PortConfig& config, Options& options);

}  // namespace headrace::port
