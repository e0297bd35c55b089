// SPDX-License-Identifier: Apache-2.0
// Ports of types `internal` and `tap`: a tap device of the kernel, named like the port, that exists
// while the port does. What the kernel sends there we receive.
//
// Network namespaces. The device may be moved into another one (`ip link set NAME netns NS`), as
// for a container: it keeps working, for its file does not care, and link, MTU and addresses are
// asked for where it is (TUNGETDEVNETNS), under the name that it has there. As the kernel would
// delete it with the process, it is made persistent when it is found elsewhere, and where it is is
// written to `<rundir>/<port>.netns`. When the switch starts again, after an orderly end or a
// crash, the port attaches to the same device: its MAC address, its IP addresses and routes were
// kept. If that namespace is gone, then so is the device, and a new one is made here. A device that
// was not moved goes with the switch. Removing the port removes the device wherever it is.
#pragma once

#include <memory>

#include "base/result.h"
#include "port/options.h"
#include "port/port.h"

namespace headrace::port {

Result<std::unique_ptr<Port>> open_tap_port(const PortConfig& config, Options& options);

}  // namespace headrace::port
