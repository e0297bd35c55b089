// SPDX-License-Identifier: Apache-2.0
// The queues of a port, as OVSDB's QoS and Queue tables configure them and OpenFlow's set_queue
// names them.
#pragma once

#include <cstdint>
#include <vector>

namespace headrace::pipeline {

/// A queue. Rates are of frames without FCS, preamble and gap.
struct QueueConfig {
  uint32_t id{0};            ///< what OpenFlow's set_queue names
  uint64_t min_rate_bps{0};  ///< guaranteed; 0: nothing
  uint64_t max_rate_bps{0};  ///< 0: no limit
  uint64_t burst_bits{0};    ///< above max_rate_bps; 0: the switch's own choice
  uint32_t priority{0};      ///< queues with the lowest number share what is not guaranteed first
  bool operator==(const QueueConfig&) const = default;
};

/// All queues of a port.
struct QosConfig {
  uint64_t max_rate_bps{0};         ///< of all queues together; 0: no limit
  std::vector<QueueConfig> queues;  ///< by id
  bool operator==(const QosConfig&) const = default;
};

}  // namespace headrace::pipeline
