// SPDX-License-Identifier: Apache-2.0
// What an agent needs from the switch around its LSI: the way to the workers, and the devices.
#pragma once

#include <memory>

#include "openflow/ports.h"
#include "pipeline/flow_types.h"

namespace headrace::pipeline {
class ActionProgram;
}

namespace headrace::openflow {

/// Implemented by the runtime, one per LSI. All methods are called on the control thread and return
/// at once.
class AgentHost {
 public:
  virtual ~AgentHost() = default;

  /// Hands a packet and its compiled actions to a worker, as if it had come in by `in_port` (a real
  /// port, or kPortController). The host frees `actions` through the Reclaimer; `packet` is used
  /// during the call only. False if the way to the worker is full: the packet is dropped, which the
  /// host counts.
  virtual bool packet_out(pipeline::PortNo in_port,
                          std::unique_ptr<pipeline::ActionProgram> actions, Bytes packet) = 0;

  /// The counters of the port's device; the defaults for a port without one (patch).
  [[nodiscard]] virtual DeviceCounters device_counters(pipeline::PortNo port_no) const = 0;
};

}  // namespace headrace::openflow
