// SPDX-License-Identifier: Apache-2.0
// Streams for connections, from a listener or from an attempt to connect.
//
// Thread safety: none; used by the control thread only.
#pragma once

#include <asio/basic_socket_acceptor.hpp>
#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/stream.h"
#include "openflow/session/target.h"

namespace headrace::openflow {

/// Accepts connections at a passive target until it is destroyed.
class Listener {
 public:
  using Accepted = std::function<void(std::unique_ptr<Stream>)>;
  /// Concurrent TLS handshakes; further ones are refused.
  static constexpr size_t kMaxHandshakes = 16;

  /// Binds and listens. A Unix socket file without a listener is replaced; one with a listener is
  /// an error. `tls` (not null) is for TLS targets, and must outlive this object.
  static Result<std::unique_ptr<Listener>> open(asio::io_context& io, const Target& target,
                                                TlsCredentials* tls, Accepted accepted);
  /// Stops; a Unix socket's file is removed.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// The port listened on (useful if the target's was 0); 0 for a Unix socket.
  [[nodiscard]] uint16_t port() const { return port_; }

 private:
  class Acceptor;
  Listener() = default;

  std::shared_ptr<Acceptor> acceptor_;
  std::string path_;
  uint16_t port_{0};
};

/// One attempt to connect to an active target. `done` is called once, after the constructor has
/// returned, unless the attempt is destroyed first.
class ConnectAttempt {
 public:
  using Done = std::function<void(Result<std::unique_ptr<Stream>>)>;
  /// `tls` as in Listener::open().
  ConnectAttempt(asio::io_context& io, const Target& target, TlsCredentials* tls, Done done);
  ~ConnectAttempt();
  ConnectAttempt(const ConnectAttempt&) = delete;
  ConnectAttempt& operator=(const ConnectAttempt&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace headrace::openflow
