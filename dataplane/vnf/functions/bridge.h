// SPDX-License-Identifier: Apache-2.0
// `bridge`: a learning bridge between all of its ports (IEEE 802.1D, without spanning tree; VLAN
// tags are ignored). Configuration: {"capacity": 8192, "ageing_s": 300}.
//
// A packet to an unknown or group address is flooded to all other ports; one to an address on its
// input port is dropped; link-local group addresses (01:80:c2:00:00:0x) aren't forwarded.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_bridge(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
