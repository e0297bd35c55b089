// SPDX-License-Identifier: Apache-2.0
// `bridge`: a learning bridge between all of its ports (IEEE 802.1D, without spanning tree, blind
// to VLAN tags). Configuration: {"capacity": 8192, "ageing_s": 300}.
//
// A packet for an unknown or group address is copied to all other ports; one for an address on the
// port that it came from is dropped; link-local group addresses (01:80:c2:00:00:0x) aren't
// forwarded.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_bridge(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
