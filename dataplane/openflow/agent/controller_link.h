// SPDX-License-Identifier: Apache-2.0
// One configured controller: establishes and reestablishes connections to it.
//
// Active targets are connected to at once, and after a failure or a loss again, with a back-off of
// one second that doubles up to max_backoff and is reset by a connection that became ready. Passive
// targets are listened on; each accepted connection is separate. A failure to listen (port in use,
// TLS without a certificate) is retried in the same way.
//
// Thread safety: none; used by the control thread only.
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

  /// `tls` as in Listener::open().
  ControllerLink(asio::io_context& io, ControllerConfig config, TlsCredentials* tls,
                 Connected connected);
  ControllerLink(const ControllerLink&) = delete;
  ControllerLink& operator=(const ControllerLink&) = delete;

  /// Starts connecting or listening. Errors (a target that cannot be parsed or bound) are in the
  /// status.
  void start();

  /// To be called when a connection is ready (hello is done).
  void ready();
  /// To be called when a connection of this link ended; `was_ready` if ready() was called for it.
  void lost(bool was_ready, const std::string& reason);

  /// Charges one packet-in to the configured rate. False: the rate is exceeded, which is counted.
  bool may_send_packet_in();
  /// Counts a packet-in dropped because the controller did not read.
  void packet_in_dropped() { ++packet_ins_dropped_; }

  [[nodiscard]] const ControllerConfig& config() const { return config_; }
  [[nodiscard]] bool is_passive() const { return target_ && target_->passive; }
  /// Everything except the role and whether the connection is idle.
  [[nodiscard]] ControllerStatus status() const;
  /// The port listened on, or 0.
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
  size_t connections_{0};  ///< number of ready connections; at most 1 if active
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
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< checked by the pending timer
};

}  // namespace headrace::openflow
