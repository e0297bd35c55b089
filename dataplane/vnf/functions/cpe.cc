// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/cpe.h"

#include <array>

#include "vnf/functions/dpi.h"
#include "vnf/functions/firewall.h"
#include "vnf/functions/nat.h"
#include "vnf/functions/qos.h"
#include "vnf/functions/stages.h"

namespace headrace::vnf {
namespace {

struct StageKind {
  const char* name;
  FunctionFactory make;
};

/// From inside to outside: firewall and DPI match addresses before translation; QoS sees the DSCPs
/// that DPI set and the packets as they are sent.
constexpr std::array kOrder = {
    StageKind{"firewall", make_firewall},
    StageKind{"dpi", make_dpi},
    StageKind{"nat", make_nat},
    StageKind{"qos", make_qos},
};

}  // namespace

std::unique_ptr<Function> make_cpe(ConfigReader& config, const FunctionContext& context) {
  const uint16_t inside = context.port_index(config.string("inside"));
  const uint16_t outside = context.port_index(config.string("outside"));
  if (inside >= context.ports.size()) config.add_error("inside", "isn't in `ports`");
  if (outside >= context.ports.size()) config.add_error("outside", "isn't in `ports`");
  if (inside == outside) config.add_error("outside", "is the inside port");
  if (config.failed()) return nullptr;
  const FunctionContext within{
      .ports = {{"inside", context.ports[inside].mac}, {"outside", context.ports[outside].mac}},
      .pool = context.pool,
      .tsc_hz = context.tsc_hz};
  std::vector<Stages::Stage> stages;
  for (const auto& kind : kOrder) {
    if (!config.has(kind.name)) continue;
    auto child = config.child(kind.name);
    stages.push_back({kind.name, kind.make(child, within)});
    child.finish();
  }
  if (stages.empty()) config.add_error("firewall", "give at least one of firewall, dpi, nat, qos");
  if (context.pool == nullptr || config.failed()) return nullptr;
  return std::make_unique<Stages>(std::move(stages), inside, outside);
}

}  // namespace headrace::vnf
