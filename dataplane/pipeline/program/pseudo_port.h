// SPDX-License-Identifier: Apache-2.0
// The form in which a pseudo-port is registered: a reserved port number that output actions name.
//
// A pseudo-port is one file of pipeline/operations/pseudo_ports that defines one PseudoPort;
// operations/pseudo_ports/registry.h lists them. LOCAL is none: it is a port like any other.
#pragma once

#include <cstdint>
#include <string_view>

#include "pipeline/terms/actions.h"

namespace headrace::pipeline {

struct Execution;
struct OpBurst;
struct ReferencePacket;

struct PseudoPort {
  PortNo number;
  std::string_view name;  ///< as ovs-ofctl spells it
  bool packet_out_only{false};
  /// May send a packet to any port, as floods do.
  bool reaches_all{false};
  /// Sends the packets themselves if `burst.last`, and takes them out of the burst; else copies.
  void (*run)(Execution& x, OpBurst& burst){nullptr};
  void (*reference)(ReferencePacket& packet, const OutputAction& action){nullptr};
};

}  // namespace headrace::pipeline
