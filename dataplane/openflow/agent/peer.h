// SPDX-License-Identifier: Apache-2.0
// The state of one connection of an agent: role, asynchronous configuration, bundles, flow
// monitors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "openflow/agent/bundles.h"
#include "openflow/agent/flow_monitors.h"
#include "openflow/codec/switch_config.h"
#include "openflow/session/connection.h"
#include "pipeline/terms/stats.h"

namespace headrace::openflow {

class ControllerLink;

struct Peer {
  std::shared_ptr<Connection> connection;
  ControllerLink* link{nullptr};  ///< null on the management socket
  bool ready{false};
  Role role{Role::equal};
  AsyncConfig async;
  SwitchConfig config;
  Bundles bundles;
  FlowMonitors monitors;

  /// Parts received so far of a request that spans messages: table features.
  struct Parts {
    uint32_t xid{0};
    Message body;
  };
  Parts parts;

  /// A service connection (accepted, not made by us) begins with miss_send_len 0 and then gets no
  /// asynchronous messages, as in Open vSwitch; otherwise `ovs-ofctl dump-flows` would be sent
  /// packet-ins.
  bool service{false};

  /// Of this peer's messages, how many are kept back (kept_back.h).
  size_t kept_back{0};

  /// Gets copies of the messages between controllers and switch, and may send no requests.
  bool snoops{false};

  [[nodiscard]] bool is_slave() const { return role == Role::slave; }

  [[nodiscard]] bool wants(const std::array<uint32_t, 2>& masks, unsigned reason) const {
    if (!ready || snoops || (service && config.miss_send_len == 0)) return false;
    return (masks[is_slave() ? 1 : 0] >> reason & 1u) != 0;
  }
};

}  // namespace headrace::openflow
