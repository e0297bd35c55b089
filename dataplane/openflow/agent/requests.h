// SPDX-License-Identifier: Apache-2.0
// Requests to the LSI: each message type, what it does, and the answer or error.
//
// Everything is done when handle() returns, so a barrier is answered at once and in order.
//
// Thread safety: none; the control thread.
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

/// What the agent's connections share.
struct AgentContext {
  pipeline::Lsi& lsi;
  AgentHost& host;
  AgentConfig config;
  PacketBuffers buffers;
  std::optional<uint64_t> generation_id;  ///< of the last master or slave request
  /// Whose request is being answered: a flow monitor may want to know its own changes apart.
  struct Requester {
    const Peer* peer{nullptr};
    uint32_t xid{0};
  };
  Requester requester;
  /// A peer has other flow monitors than before.
  std::function<void()> monitors_changed;
  /// A peer became master: all other masters become slaves.
  std::function<void(const Peer&)> demote_others;
  std::map<uint8_t, std::string> table_names{};  ///< as controllers have set them
};

/// Answers one message (header included) of a ready peer.
void handle_request(AgentContext& context, Peer& peer, const Header& header, Bytes message);

/// A port's queues; queue 0, without counts, if the host knows of none.
std::vector<QueueState> queues_of(const AgentHost& host, pipeline::PortNo port);

/// Answers a multipart request.
OfResult<> handle_multipart(AgentContext& context, Peer& peer, uint32_t xid, Bytes body);

}  // namespace headrace::openflow
