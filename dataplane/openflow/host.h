// SPDX-License-Identifier: Apache-2.0
// What an agent needs from whoever owns its LSI's ports and reaches the workers.
#pragma once

#include <optional>
#include <vector>

#include "openflow/ports.h"
#include "pipeline/flow_types.h"

namespace headrace::openflow {

/// Implemented by the switch's runtime, one per LSI. All methods are called on the control thread
/// and return at once.
class AgentHost {
 public:
  virtual ~AgentHost() = default;

  /// All ports of the LSI, in any order.
  [[nodiscard]] virtual std::vector<PortDesc> ports() const = 0;
  /// The counters of a port; nothing if there is no such port.
  [[nodiscard]] virtual std::optional<PortCounters> port_counters(PortNo port_no) const = 0;
  /// Sets the `mask` bits of the port's configuration to `config` (port_config). The host then
  /// calls Agent::port_status() for the changed port.
  virtual OfResult<> set_port_config(PortNo port_no, uint32_t config, uint32_t mask) = 0;
  /// Runs `actions` over a packet as if it had come in at `in_port` (kPortController if from
  /// nowhere). An output to kPortTable sends it through the tables. What the actions refer to and
  /// does not exist is the error that OpenFlow names.
  virtual OfResult<> packet_out(PortNo in_port, const pipeline::ActionList& actions,
                                Bytes packet) = 0;
};

}  // namespace headrace::openflow
