// SPDX-License-Identifier: Apache-2.0
#include "vnf/registry.h"

#include <algorithm>
#include <array>

#include "vnf/pass.h"
#include "vnf/router.h"

namespace headrace::vnf {
namespace {

constexpr std::array kFunctions = {
    FunctionEntry{"pass", "forward between pairs of ports, MAC addresses kept, swapped or set",
                  make_pass},
    FunctionEntry{"router", "IPv4 router: longest prefix match, ARP, TTL, ICMP", make_router},
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
