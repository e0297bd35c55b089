// SPDX-License-Identifier: Apache-2.0
#include "openflow/agent/agent.h"

#include <algorithm>
#include <map>

#include "base/log.h"
#include "openflow/agent/controller_link.h"
#include "openflow/agent/kept_back.h"
#include "openflow/agent/requests.h"
#include "openflow/codec/flows.h"
#include "openflow/codec/packet_in.h"

namespace headrace::openflow {
namespace {
/// Connections of all kinds. Each may hold up to 16 MiB (connection.h).
constexpr size_t kMaxPeers = 64;
}  // namespace

class Agent::Impl final : public ConnectionOwner, public pipeline::LsiObserver {
 public:
  Impl(asio::io_context& io, pipeline::Lsi& lsi, AgentHost& host, AgentConfig config)
      : io_(io),
        context_{lsi,
                 host,
                 std::move(config),
                 {},
                 std::nullopt,
                 {},
                 [this] { watch_flows(); },
                 [this](const Peer& master) { demote_others(master); }} {
    context_.lsi.add_observer(*this);
  }

  ~Impl() override {
    context_.lsi.remove_observer(*this);
    context_.lsi.watch_flows(nullptr);
    for (auto& [connection, peer] : peers_) peer.connection->close();
  }

  Result<> listen(std::string_view target, bool for_snoopers = false) {
    const bool bare = target.find(':') == target.npos;
    Result<Target> parsed = parse_target(bare ? fmt::format("punix:{}", target) : target);
    if (!parsed) return tl::unexpected<Error>(parsed.error());
    if (!parsed->passive) return fail("{}: a management socket is passive (punix:PATH)", target);
    Result<std::unique_ptr<Listener>> listener = Listener::open(
        io_, *parsed, context_.config.tls, [this, for_snoopers](std::unique_ptr<Stream> stream) {
          // An operator's tool may be idle for any time: no probe.
          add_peer(std::move(stream), nullptr, std::chrono::milliseconds(0), for_snoopers);
        });
    if (!listener) return tl::unexpected<Error>(listener.error());
    listeners_.push_back(std::move(*listener));
    return {};
  }

  void set_controllers(const std::vector<ControllerConfig>& controllers) {
    std::vector<std::unique_ptr<ControllerLink>> kept;
    std::vector<ControllerLink*> added;
    for (const ControllerConfig& config : controllers) {
      const auto same = std::find_if(links_.begin(), links_.end(), [&config](const auto& link) {
        return link != nullptr && link->config() == config;
      });
      if (same != links_.end()) {
        kept.push_back(std::move(*same));
        continue;
      }
      kept.push_back(std::make_unique<ControllerLink>(
          io_, config, context_.config.tls,
          [this](ControllerLink& link, std::unique_ptr<Stream> stream) {
            add_peer(std::move(stream), &link, link.config().inactivity_probe);
          }));
      added.push_back(kept.back().get());
    }
    for (const auto& gone : links_) {
      if (gone != nullptr) drop_peers_of(gone.get());
    }
    links_ = std::move(kept);  // frees the sockets of removed links
    for (ControllerLink* link : added) link->start();
  }

  std::vector<ControllerStatus> status() const {
    std::vector<ControllerStatus> all;
    for (const auto& link : links_) {
      ControllerStatus status = link->status();
      for (const auto& [connection, peer] : peers_) {
        if (peer.link != link.get() || !peer.ready) continue;
        status.role = peer.role;
        if (peer.connection->idle()) status.state = "IDLE";
      }
      all.push_back(std::move(status));
    }
    return all;
  }

  bool is_connected() const {
    return std::any_of(peers_.begin(), peers_.end(), [](const auto& entry) {
      return entry.second.link != nullptr && entry.second.ready;
    });
  }

  void packet_in(const pipeline::PuntInfo& info, Bytes packet) {
    std::optional<uint32_t> buffer_id;
    bool tried_buffer = false;
    for (auto& [connection, peer] : peers_) {
      if (!peer.wants(peer.async.packet_in, static_cast<unsigned>(info.reason))) continue;
      if (peer.link != nullptr && !peer.link->may_send_packet_in()) continue;
      size_t data_len = packet.size();
      // Without an output action the connection's configuration gives the length (7.3.2).
      const uint16_t max_len = info.reason == pipeline::PuntReason::invalid_ttl
                                   ? peer.config.miss_send_len
                                   : info.max_len;
      if (max_len != pipeline::kNoBufferLength && max_len < packet.size()) {
        if (!tried_buffer) buffer_id = context_.buffers.put(info.in_port, packet);
        tried_buffer = true;
        if (buffer_id) data_len = max_len;
      }
      // A packet-in with the whole packet needs no buffer.
      const bool is_head = data_len < packet.size();
      const bool sent = peer.connection->send_droppable(
          encode_packet_in(info, packet, is_head ? *buffer_id : pipeline::kNoBuffer, data_len));
      if (!sent && peer.link != nullptr) peer.link->packet_in_dropped();
    }
  }

  void set_datapath_id(uint64_t datapath_id) {
    if (context_.config.datapath_id == datapath_id) return;
    context_.config.datapath_id = datapath_id;
    for (auto& [connection, peer] : peers_) {
      peer.connection->close_when_written("datapath id changed");
    }
  }

  void set_description(std::string description) {
    context_.config.description = std::move(description);
  }

  // pipeline::LsiObserver
  void flow_removed(const pipeline::FlowStats& flow, pipeline::FlowRemovedReason reason) override {
    const Message message = encode_flow_removed(flow, reason);
    for (auto& [connection, peer] : peers_) {
      if (peer.wants(peer.async.flow_removed, static_cast<unsigned>(reason))) {
        peer.connection->send_notice(message);
      }
    }
  }

  void port_changed(const pipeline::PortDesc& port, pipeline::PortChange change) override {
    const Message message = encode_port_status(change, port);
    for (auto& [connection, peer] : peers_) {
      if (peer.wants(peer.async.port_status, static_cast<unsigned>(change))) {
        peer.connection->send_notice(message);
      }
    }
  }

  // ConnectionOwner
  void connection_ready(Connection& connection) override {
    Peer& peer = peers_.at(&connection);
    peer.ready = true;
    if (peer.link != nullptr) peer.link->ready();
  }

  void connection_message(Connection& connection, const Header& header, Bytes message) override {
    Peer& peer = peers_.at(&connection);
    if (peer.snoops) {
      connection.send_error(header.xid, error::kRequestNotPermitted, message);
      return;
    }
    kept_back_.handle(peer, header, message);
  }

  void connection_closed(Connection& connection, const std::string& reason) override {
    const auto found = peers_.find(&connection);
    if (found == peers_.end()) return;
    ControllerLink* link = found->second.link;
    const bool was_ready = found->second.ready;
    kept_back_.forget(found->second);
    peers_.erase(found);
    watch_flows();
    tap_controllers();
    if (link != nullptr) {
      link->lost(was_ready, reason);
    } else {
      log::debug("openflow: {}: management connection: {}", context_.config.name, reason);
    }
  }

 private:
  void add_peer(std::unique_ptr<Stream> stream, ControllerLink* link,
                std::chrono::milliseconds probe, bool snoops = false) {
    if (peers_.size() >= kMaxPeers) {
      log::warn("openflow: {}: {} connections are open; one more refused", context_.config.name,
                kMaxPeers);
      // An active link retries later; the client of a passive one sees its connection closed.
      if (link != nullptr) link->lost(false, "too many connections");
      return;
    }
    auto connection = std::make_shared<Connection>(std::move(stream), *this, probe);
    Peer peer;
    peer.connection = connection;
    peer.link = link;
    peer.service = link == nullptr || link->is_passive();
    if (peer.service) peer.config.miss_send_len = 0;
    peer.snoops = snoops;
    peers_.emplace(connection.get(), std::move(peer));
    tap_controllers();
    connection->start();
  }

  void drop_peers_of(const ControllerLink* link) {
    std::erase_if(peers_, [this, link](auto& entry) {
      if (entry.second.link != link) return false;
      kept_back_.forget(entry.second);
      entry.second.connection->close();
      return true;
    });
    watch_flows();
  }

  /// Taps the controllers' connections while any peer snoops.
  void tap_controllers() {
    const bool wanted = std::any_of(peers_.begin(), peers_.end(),
                                    [](const auto& entry) { return entry.second.snoops; });
    if (!wanted && !tapping_) return;
    tapping_ = wanted;
    for (auto& [connection, peer] : peers_) {
      if (peer.link == nullptr) continue;
      if (!wanted) {
        peer.connection->set_tap(nullptr);
        continue;
      }
      peer.connection->set_tap([this](Bytes message) {
        for (auto& [other, snooper] : peers_) {
          if (snooper.snoops && snooper.ready) {
            snooper.connection->send_droppable({message.begin(), message.end()});
          }
        }
      });
    }
  }

  /// Observes flow changes while any peer monitors flows.
  void watch_flows() {
    const bool wanted = std::any_of(peers_.begin(), peers_.end(), [](const auto& entry) {
      return !entry.second.monitors.empty();
    });
    if (wanted == watching_) return;
    watching_ = wanted;
    if (!wanted) {
      context_.lsi.watch_flows(nullptr);
      return;
    }
    context_.lsi.watch_flows([this](const pipeline::FlowStats& flow, pipeline::FlowChange change,
                                    pipeline::FlowRemovedReason reason) {
      for (auto& [connection, peer] : peers_) {
        if (peer.monitors.empty()) continue;
        const bool own = context_.requester.peer == &peer;
        const std::optional<Message> message = peer.monitors.update(
            flow, change, reason, own ? std::optional(context_.requester.xid) : std::nullopt);
        if (message) peer.connection->send_notice(*message);
      }
    });
  }

  void demote_others(const Peer& master) {
    for (auto& [connection, peer] : peers_) {
      if (&peer == &master || peer.role != Role::master) continue;
      peer.role = Role::slave;
      peer.connection->send_notice(
          encode_role_status({Role::slave, context_.generation_id.value_or(UINT64_MAX)}));
    }
  }

  asio::io_context& io_;
  AgentContext context_;
  KeptBack kept_back_{io_, context_};
  std::map<const Connection*, Peer> peers_;
  bool watching_{false};
  bool tapping_{false};
  std::vector<std::unique_ptr<ControllerLink>> links_;
  std::vector<std::unique_ptr<Listener>> listeners_;
};

Agent::Agent(asio::io_context& io, pipeline::Lsi& lsi, AgentHost& host, AgentConfig config)
    : impl_(std::make_unique<Impl>(io, lsi, host, std::move(config))) {}

Agent::~Agent() = default;

Result<> Agent::listen(std::string_view target) {
  return impl_->listen(target);
}

Result<> Agent::listen_for_snoopers(std::string_view target) {
  return impl_->listen(target, true);
}

void Agent::set_controllers(const std::vector<ControllerConfig>& controllers) {
  impl_->set_controllers(controllers);
}

std::vector<ControllerStatus> Agent::status() const {
  return impl_->status();
}

bool Agent::is_connected() const {
  return impl_->is_connected();
}

void Agent::packet_in(const pipeline::PuntInfo& info, Bytes packet) {
  impl_->packet_in(info, packet);
}

void Agent::set_datapath_id(uint64_t datapath_id) {
  impl_->set_datapath_id(datapath_id);
}

void Agent::set_description(std::string description) {
  impl_->set_description(std::move(description));
}

}  // namespace headrace::openflow
