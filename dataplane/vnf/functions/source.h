// SPDX-License-Identifier: Apache-2.0
// `source`: generates UDP packets on every port. Received packets are dropped (`discarded`).
// Configuration:
//
//   {"size": 64, "flows": 1, "rate_pps": 0, "burst": 1,
//    "src_mac": "02:..", "dst_mac": "02:..", "src_ip": "10.0.0.1", "dst_ip": "10.1.0.1",
//    "src_port": 1024, "dst_port": 9}
//
// `size` includes the FCS (64 is the minimum). Flow i has the destination dst_ip + i; flows are
// sent round-robin. `rate_pps` is per port; 0 is as fast as the port accepts. `burst` packets (up
// to 32) are sent together. For measurements use headrace-traffic, which numbers and timestamps its
// packets; this function only generates load.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_source(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
