// SPDX-License-Identifier: Apache-2.0
// The OpenFlow agent of one LSI: its controllers, its management socket, and their messages.
//
// An agent has any number of connections: those that it makes (active controllers, reconnected with
// back-off), and those that it accepts (passive controllers, the management socket of ovs-ofctl).
// Each supports OpenFlow 1.3 only. Requests are applied to the LSI at once and in order, so a
// barrier is answered immediately, but for changes that have a large table built (kept_back.h);
// asynchronous messages go to every connection whose role and
// asynchronous configuration allow them.
//
// Thread safety: none. Everything runs on the control thread, which runs the io_context. A slow or
// hostile peer costs that thread bounded work and memory: a peer that does not read is disconnected
// when its output exceeds kMaxQueuedBytes (session.h).
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/stream.h"
#include "openflow/agent/host.h"
#include "openflow/codec/protocol.h"
#include "pipeline/control/lsi.h"
#include "pipeline/terms/punt.h"

namespace headrace::openflow {

/// The settings that are constant during the agent's lifetime.
struct AgentConfig {
  uint64_t datapath_id{0};
  std::string name;         ///< of the bridge, for the log
  std::string description;  ///< dp_desc; empty: the name
  std::string serial{"None"};
  TlsCredentials* tls{nullptr};  ///< for ssl: and pssl:; must outlive the agent
};

/// One controller as configured in OVSDB's Controller table.
struct ControllerConfig {
  /// `tcp:IP[:PORT]`, `ssl:IP[:PORT]`, `unix:PATH` (active), `ptcp:[PORT][:IP]`,
  /// `pssl:[PORT][:IP]`, `punix:PATH` (passive).
  std::string target;
  /// After this time without data the peer is sent an echo request; after twice this time it is
  /// disconnected. Zero: never.
  std::chrono::milliseconds inactivity_probe{5000};
  std::chrono::milliseconds max_backoff{8000};
  /// Limit of packet-ins per second, and the size of a burst; 0: no limit, and a quarter of the
  /// rate.
  uint32_t packet_in_rate{0};
  uint32_t packet_in_burst{0};
  bool operator==(const ControllerConfig&) const = default;
};

/// The state of a controller for OVSDB's Controller.status; state names are those of OVS.
struct ControllerStatus {
  std::string target;
  bool is_connected{false};
  Role role{Role::equal};
  std::string state;                          ///< VOID, BACKOFF, CONNECTING, ACTIVE, IDLE
  std::string last_error;                     ///< empty if none
  std::chrono::seconds since_connect{-1};     ///< negative: never
  std::chrono::seconds since_disconnect{-1};  ///< negative: never
  uint64_t packet_ins_limited{0};             ///< dropped for packet_in_rate
  uint64_t packet_ins_dropped{0};             ///< dropped because the controller did not read
};

class Agent {
 public:
  /// `lsi` and `host` must outlive the agent. The agent registers itself as observer of ports and
  /// flows.
  Agent(asio::io_context& io, pipeline::Lsi& lsi, AgentHost& host, AgentConfig config);
  /// Closes all connections and removes the Unix sockets listened on.
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// Listens on a management socket (`punix:PATH` or a bare path) whose connections are service
  /// connections: they get packet-ins only if they request them (set-config's miss_send_len, as
  /// `ovs-ofctl monitor` does). A stale socket file is replaced.
  Result<> listen(std::string_view target);

  /// Listens on a socket whose connections get a copy of every message between the switch and its
  /// controllers, for `ovs-ofctl snoop`. Messages that don't fit in a slow client's queue are
  /// dropped.
  Result<> listen_for_snoopers(std::string_view target);

  /// Replaces the list of controllers; connections of unchanged entries are kept. A target that
  /// cannot be parsed or bound appears in status() with last_error set.
  void set_controllers(const std::vector<ControllerConfig>& controllers);
  [[nodiscard]] std::vector<ControllerStatus> status() const;

  /// Whether any controller (management connections excluded) is connected: for fail-mode.
  [[nodiscard]] bool is_connected() const;

  /// Sends a punted packet to every connection whose configuration allows it, buffered if max_len
  /// requires it.
  void packet_in(const pipeline::PuntInfo& info, Bytes packet);

  /// Changes the datapath id; connections are closed, so that controllers read it again.
  void set_datapath_id(uint64_t datapath_id);
  /// Changes dp_desc.
  void set_description(std::string description);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::openflow
