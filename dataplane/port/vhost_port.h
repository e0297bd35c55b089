// SPDX-License-Identifier: Apache-2.0
// Ports of types `dpdkvhostuser` and `dpdkvhostuserclient`: a VM's (or virtio-user's) virtio-net
// device, its rings in memory that the guest shares with us (vhost/device.h, vhost/data_path.h).
//
// As client we connect to a socket that the VM's side listens on, again and again until it is
// there: so we may be restarted under a VM that runs on. As server we listen at <rundir>/<port
// name>, and it is the VM that has to be restarted with us (OVS deprecates this).
#pragma once

#include <memory>

#include "base/result.h"
#include "port/options.h"
#include "port/port.h"

namespace headrace::port {

/// Either type, by `config.type`.
Result<std::unique_ptr<Port>> open_vhost_port(const PortConfig& config, Options& options);

}  // namespace headrace::port
