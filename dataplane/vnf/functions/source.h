// SPDX-License-Identifier: Apache-2.0
// `source`: makes UDP packets of its own on every port. What comes in is dropped (`discarded`).
// Configuration:
//
//   {"size": 64, "flows": 1, "rate_pps": 0, "burst": 1,
//    "src_mac": "02:..", "dst_mac": "02:..", "src_ip": "10.0.0.1", "dst_ip": "10.1.0.1",
//    "src_port": 1024, "dst_port": 9}
//
// `size` counts the FCS (64 is the least). Flow i has dst_ip + i; flows take turns. `rate_pps` is
// per port; 0 is as fast as the port takes them. `burst` packets (up to 32) leave together. For
// measurements use headrace-traffic, which numbers and times its packets; this is a load.
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_source(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
