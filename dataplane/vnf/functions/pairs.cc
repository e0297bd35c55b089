// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/pairs.h"

namespace headrace::vnf {
namespace {

void read_pair(ConfigReader& config, const FunctionContext& context, const Json& pair,
               std::vector<uint16_t>& out) {
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
    config.add_error("pairs", pair.dump() + " is not two port names");
    return;
  }
  const uint16_t a = context.port_index(pair[0].get<std::string>());
  const uint16_t b = context.port_index(pair[1].get<std::string>());
  if (a >= out.size() || b >= out.size()) {
    config.add_error("pairs", pair.dump() + " names a port that isn't in `ports`");
    return;
  }
  if (out[a] != kUnpaired || out[b] != kUnpaired) {
    config.add_error("pairs", pair.dump() + " names a port that is in a pair already");
    return;
  }
  out[a] = b;
  out[b] = a;
}

}  // namespace

std::vector<uint16_t> read_pairs(ConfigReader& config, const FunctionContext& context) {
  std::vector<uint16_t> out(context.ports.size(), kUnpaired);
  const Json* pairs = config.raw("pairs");
  if (pairs == nullptr) {
    if (out.size() % 2 != 0) {
      config.add_error("pairs", "missing, and the number of ports is odd");
      return out;
    }
    for (size_t i = 0; i + 1 < out.size(); i += 2) {
      out[i] = static_cast<uint16_t>(i + 1);
      out[i + 1] = static_cast<uint16_t>(i);
    }
    return out;
  }
  if (!pairs->is_array()) {
    config.add_error("pairs", "not a list");
    return out;
  }
  for (const Json& pair : *pairs) read_pair(config, context, pair, out);
  return out;
}

}  // namespace headrace::vnf
