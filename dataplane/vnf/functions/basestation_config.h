// SPDX-License-Identifier: Apache-2.0
// The configuration of `basestation` (basestation.h).
#pragma once

#include "vnf/function.h"
#include "vnf/state/bearers.h"
#include "vnf/state/esp_sa.h"

namespace headrace::vnf {

struct BasestationConfig {
  uint16_t radio{0};
  uint16_t core{1};
  Ipv4Address core_address{0};
  Ipv4Address security_gateway{0};
  MacAddress core_next_hop{};
  Ipv4Address gtpu_address{0};
  Ipv4Address serving_gateway{0};
  EspParameters uplink;
  EspParameters downlink;
  BearerTable bearers;
};

/// Adds errors to the reader.
BasestationConfig read_basestation(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
