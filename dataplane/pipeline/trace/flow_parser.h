// SPDX-License-Identifier: Apache-2.0
// An operator's description of one packet, in the flow syntax of ovs-ofctl(8).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "match/fields/match.h"

namespace headrace::pipeline {

/// The number of a port that is given by name; nothing if there is none.
using PortResolver = std::function<std::optional<uint32_t>(std::string_view name)>;

/// A packet's fields as an operator gives them: all exact.
struct FlowText {
  match::Match fields;
  std::optional<uint8_t> ttl;  ///< nw_ttl, which is no match field

  [[nodiscard]] bool has(match::Field field) const;
};

/// Reads `in_port=1,udp,nw_dst=10.0.0.1`. Fails with the words of ovs-ofctl, which name the field.
Result<FlowText> parse_flow(std::string_view text, const PortResolver& ports);

}  // namespace headrace::pipeline
