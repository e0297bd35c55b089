// SPDX-License-Identifier: Apache-2.0
// The interface to the switch around the agent's LSI: sending packets by the workers, and devices.
#pragma once

#include <memory>
#include <vector>

#include "openflow/codec/ports.h"
#include "pipeline/terms/flow_types.h"

namespace headrace::pipeline {
class ActionProgram;
}

namespace headrace::openflow {

/// A queue of a port, and its counters.
struct QueueState {
  uint32_t id{0};
  uint64_t min_rate_bps{0};  ///< 0: none guaranteed
  uint64_t max_rate_bps{0};  ///< 0: no limit
  uint64_t tx_packets{0};
  uint64_t tx_bytes{0};
  uint64_t tx_errors{0};
};

/// Implemented by the runtime, one per LSI. All methods are called on the control thread and return
/// at once.
class AgentHost {
 public:
  virtual ~AgentHost() = default;

  /// Passes a packet and its compiled actions to a worker, as if it had been received on `in_port`
  /// (a real port, or kPortController). The host frees `actions` through the Reclaimer; `packet` is
  /// used only during the call, and has at most largest_packet() octets. Waits briefly if the queue
  /// to the worker is full. False: the packet is dropped, which the host counts.
  virtual bool packet_out(pipeline::PortNo in_port,
                          std::unique_ptr<pipeline::ActionProgram> actions, Bytes packet) = 0;

  /// Octets of the longest packet that fits in a buffer.
  [[nodiscard]] virtual size_t largest_packet() const = 0;

  /// The counters of the port's device; the defaults for a port without one (patch).
  [[nodiscard]] virtual DeviceCounters device_counters(pipeline::PortNo port_no) const = 0;

  /// Sets how the LSI handles fragments; false if there is no memory for it.
  virtual bool set_fragments(pipeline::FragmentMode mode) = 0;

  /// The queues of a port, by id; empty if the port has no QoS configuration.
  [[nodiscard]] virtual std::vector<QueueState> queues(pipeline::PortNo port_no) const = 0;
};

}  // namespace headrace::openflow
