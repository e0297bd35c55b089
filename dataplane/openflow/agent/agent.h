// SPDX-License-Identifier: Apache-2.0
// The OpenFlow agent of one LSI: its controllers, its management socket, and what is said there.
//
// An agent holds any number of connections: those it makes itself (active controllers, reconnected
// with back-off), those it accepts (passive controllers, the management socket of ovs-ofctl). Each
// supports OpenFlow 1.3 only. Requests go to the LSI at once and in order, so that a barrier has
// nothing left to wait for; asynchronous messages go to every connection whose role and async
// configuration want them.
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

/// What does not change while an agent lives.
struct AgentConfig {
  uint64_t datapath_id{0};
  std::string name;         ///< the bridge's, for the log
  std::string description;  ///< dp_desc; empty: the name
  std::string serial{"None"};
  TlsCredentials* tls{nullptr};  ///< for ssl: and pssl:; outlives the agent
};

/// One controller as configured in OVSDB's Controller table.
struct ControllerConfig {
  /// `tcp:IP[:PORT]`, `ssl:IP[:PORT]`, `unix:PATH` (active), `ptcp:[PORT][:IP]`,
  /// `pssl:[PORT][:IP]`, `punix:PATH` (passive).
  std::string target;
  /// Silence after which the peer is asked by an echo request, and after twice of which it is
  /// dropped. Zero: never.
  std::chrono::milliseconds inactivity_probe{5000};
  std::chrono::milliseconds max_backoff{8000};
  /// Packet-ins per second that the controller is sent, and how many at once; 0: no limit, and a
  /// quarter of the rate.
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
  uint64_t packet_ins_dropped{0};             ///< dropped, for the controller did not read
};

class Agent {
 public:
  /// `lsi` and `host` must outlive the agent. The agent observes the LSI's ports and flows itself.
  Agent(asio::io_context& io, pipeline::Lsi& lsi, AgentHost& host, AgentConfig config);
  /// Closes all connections and removes the Unix sockets listened on.
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// Listens on a management socket (`punix:PATH` or a bare path) whose connections are service
  /// connections: they get packet-ins only when they ask for them (set-config's miss_send_len, as
  /// `ovs-ofctl monitor` does). A stale socket file is replaced.
  Result<> listen(std::string_view target);

  /// Listens on a socket whose connections are shown every message between the switch and its
  /// controllers, as `ovs-ofctl snoop` asks. Messages that a slow one has no room for are dropped.
  Result<> listen_for_snoopers(std::string_view target);

  /// Makes the controllers be these; connections of unchanged entries stay. A target that cannot
  /// be parsed or bound appears in status() with last_error set.
  void set_controllers(const std::vector<ControllerConfig>& controllers);
  [[nodiscard]] std::vector<ControllerStatus> status() const;

  /// True if any controller (management connections apart) is connected: for fail-mode.
  [[nodiscard]] bool is_connected() const;

  /// Sends a punted packet to every connection that wants it, buffering it where max_len asks so.
  void packet_in(const pipeline::PuntInfo& info, Bytes packet);

  /// Changes the datapath id; connections are closed so that controllers learn it.
  void set_datapath_id(uint64_t datapath_id);
  /// Changes dp_desc.
  void set_description(std::string description);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::openflow
