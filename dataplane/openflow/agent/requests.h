// SPDX-License-Identifier: Apache-2.0
// Requests to the LSI: handles each message type and sends the reply or error.
//
// Every request is completed when its handler returns, so a barrier is answered at once and in
// order; but for a change that has a large table built first (Lsi::changing()). What depends on
// that is sent when it is visible, and the agent keeps what follows back (kept_back.h).
//
// Thread safety: none; used by the control thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "openflow/agent/agent.h"
#include "openflow/agent/host.h"
#include "openflow/agent/packet_buffers.h"
#include "openflow/agent/peer.h"
#include "openflow/codec/multipart.h"

namespace headrace::openflow {

/// The state shared by the agent's connections.
struct AgentContext {
  pipeline::Lsi& lsi;
  AgentHost& host;
  AgentConfig config;
  PacketBuffers buffers;
  std::optional<uint64_t> generation_id;  ///< of the last master or slave request
  /// The request being processed: flow monitors can distinguish changes of their own connection.
  struct Requester {
    const Peer* peer{nullptr};
    uint32_t xid{0};
  };
  Requester requester;
  /// Called when a peer's flow monitors have changed.
  std::function<void()> monitors_changed;
  /// Called when a peer became master: all other masters become slaves.
  std::function<void(const Peer&)> demote_others;
  std::map<uint8_t, std::string> table_names{};  ///< set by controllers
  /// Ends with the context: what waits for a change to be visible asks.
  std::shared_ptr<bool> alive{std::make_shared<bool>(true)};
};

/// Processes one message (header included) of a ready peer.
void handle_request(AgentContext& context, Peer& peer, const Header& header, Bytes message);

/// Whether a message would change flows, groups, meters, ports or tables, or send a packet.
[[nodiscard]] bool changes_switch(const Header& header, Bytes body);

/// A port's queues; queue 0, without counters, if the host has none.
std::vector<QueueState> queues_of(const AgentHost& host, pipeline::PortNo port);

/// Processes a multipart request.
OfResult<> handle_multipart(AgentContext& context, Peer& peer, uint32_t xid, Bytes body);

}  // namespace headrace::openflow
