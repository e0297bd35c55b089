// SPDX-License-Identifier: Apache-2.0
// One configured controller: how a connection to it comes about, again and again.
//
// Active targets are connected to at once, and after a failure or a loss again, after a back-off of
// one second that doubles up to max_backoff and starts anew after a connection that got ready.
// Passive targets are listened on; each connection accepted is one of its own. What cannot be
// listened on (a port in use, TLS without a certificate) is tried again in the same way.
//
// Thread safety: none; the control thread.
#pragma once

#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "openflow/agent/agent.h"
#include "openflow/session/endpoint.h"

namespace headrace::openflow {

class ControllerLink {
 public:
  /// Takes over a connected stream.
  using Connected = std::function<void(ControllerLink&, std::unique_ptr<Stream>)>;

  /// `tls` as of Listener::open().
  ControllerLink(asio::io_context& io, ControllerConfig config, TlsCredentials* tls,
                 Connected connected);
  ControllerLink(const ControllerLink&) = delete;
  ControllerLink& operator=(const ControllerLink&) = delete;

  /// Begins. What prevents it (a target that cannot be parsed or bound) is in the status.
  void start();

  /// The connection is ready (hello is done).
  void ready();
  /// A connection of this link ended; `was_ready` if ready() was called for it.
  void lost(bool was_ready, const std::string& reason);

  /// Charges one packet-in to the configured rate; false: it is over, and counted.
  bool may_send_packet_in();
  /// Counts one that the controller was too slow to take.
  void packet_in_dropped() { ++packet_ins_dropped_; }

  [[nodiscard]] const ControllerConfig& config() const { return config_; }
  [[nodiscard]] bool is_passive() const { return target_ && target_->passive; }
  /// All but the role, and whether the connection is idle.
  [[nodiscard]] ControllerStatus status() const;
  /// The port listened on, 0 if none.
  [[nodiscard]] uint16_t port() const { return listener_ ? listener_->port() : uint16_t{0}; }

 private:
  enum class State : uint8_t { idle, backoff, connecting, connected };

  void open();
  void listen();
  void connect();
  void back_off();

  asio::io_context& io_;
  ControllerConfig config_;
  TlsCredentials* tls_;
  Connected connected_;
  std::optional<Target> target_;
  State state_{State::idle};
  size_t connections_{0};  ///< ready ones; at most 1 if active
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<ConnectAttempt> attempt_;
  asio::steady_timer timer_;
  std::chrono::milliseconds backoff_{0};
  std::string last_error_;
  uint64_t packet_ins_limited_{0};
  uint64_t packet_ins_dropped_{0};
  std::chrono::steady_clock::time_point packet_ins_paid_until_{};
  std::optional<std::chrono::steady_clock::time_point> connected_at_;
  std::optional<std::chrono::steady_clock::time_point> disconnected_at_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< watched by the pending timer
};

}  // namespace headrace::openflow
