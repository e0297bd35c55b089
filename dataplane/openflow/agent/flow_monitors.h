// SPDX-License-Identifier: Apache-2.0
// The flow monitors of one connection.
//
// Source: ONF extension EXT-187. A connection that does not read its updates is closed
// (Connection::send_notice) rather than paused: it can request all flows again when it reconnects.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "openflow/codec/flow_monitor_messages.h"
#include "pipeline/control/lsi.h"

namespace headrace::openflow {

class FlowMonitors {
 public:
  static constexpr size_t kMax = 256;

  /// Adds all or none; if an id exists already, MONITOR_EXISTS. The result is the updates about the
  /// existing flows, each flow once.
  OfResult<std::vector<Message>> add(const std::vector<FlowMonitor>& monitors,
                                     const pipeline::Lsi& lsi, uint32_t xid);
  /// UNKNOWN_MONITOR if the id does not exist.
  OfResult<> cancel(uint32_t id);

  /// The update message about a change, if any. `own_xid`: set if this connection's request caused
  /// it.
  std::optional<Message> update(const pipeline::FlowStats& flow, pipeline::FlowChange change,
                                pipeline::FlowRemovedReason reason,
                                std::optional<uint32_t> own_xid);

  [[nodiscard]] bool empty() const { return monitors_.empty(); }

 private:
  std::map<uint32_t, FlowMonitor> monitors_;
  std::optional<uint32_t> abbreviated_;  ///< the last own request that an update was sent for
};

}  // namespace headrace::openflow
