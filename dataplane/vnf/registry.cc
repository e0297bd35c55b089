// SPDX-License-Identifier: Apache-2.0
#include "vnf/registry.h"

#include <algorithm>
#include <array>

#include "vnf/functions/basestation.h"
#include "vnf/functions/bng.h"
#include "vnf/functions/bridge.h"
#include "vnf/functions/cpe.h"
#include "vnf/functions/dpi.h"
#include "vnf/functions/firewall.h"
#include "vnf/functions/load.h"
#include "vnf/functions/nat.h"
#include "vnf/functions/pass.h"
#include "vnf/functions/qos.h"
#include "vnf/functions/router.h"
#include "vnf/functions/sink.h"
#include "vnf/functions/source.h"

namespace headrace::vnf {
namespace {

constexpr std::array kFunctions = {
    FunctionEntry{"basestation", "mobile base station: users to GTP-U in IPsec and back",
                  make_basestation},
    FunctionEntry{"bng", "broadband gateway: QinQ subscribers to GRE and back", make_bng},
    FunctionEntry{"bridge", "learning Ethernet bridge between all ports", make_bridge},
    FunctionEntry{"cpe", "firewall, DPI, NAT and QoS in one process", make_cpe},
    FunctionEntry{"cpu", "pass, with a number of units of computation per packet", make_cpu},
    FunctionEntry{"dpi", "applications by nDPI: count, drop or mark their flows", make_dpi},
    FunctionEntry{"firewall", "ordered rules, stateful, between pairs of ports", make_firewall},
    FunctionEntry{"memory", "pass, with a number of bytes of memory touched per packet",
                  make_memory},
    FunctionEntry{"nat", "NAPT44 between an inside and an outside port", make_nat},
    FunctionEntry{"pass", "forward between pairs of ports, MAC addresses kept, swapped or set",
                  make_pass},
    FunctionEntry{"qos", "meters, strict and weighted queues, a rate per port", make_qos},
    FunctionEntry{"router", "IPv4 and IPv6 router: longest prefix match, ARP and ND, TTL, ICMP",
                  make_router},
    FunctionEntry{"sink", "take and free every packet", make_sink},
    FunctionEntry{"source", "make UDP packets on every port", make_source},
};

}  // namespace

std::span<const FunctionEntry> functions() {
  return kFunctions;
}

const FunctionEntry* find_function(std::string_view name) {
  const auto it = std::find_if(kFunctions.begin(), kFunctions.end(),
                               [&](const FunctionEntry& entry) { return entry.name == name; });
  return it == kFunctions.end() ? nullptr : &*it;
}

uint16_t FunctionContext::port_index(std::string_view name) const {
  const auto it =
      std::find_if(ports.begin(), ports.end(), [&](const auto& port) { return port.name == name; });
  return static_cast<uint16_t>(it - ports.begin());
}

}  // namespace headrace::vnf
