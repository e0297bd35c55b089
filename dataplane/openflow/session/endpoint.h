// SPDX-License-Identifier: Apache-2.0
// Streams for connections: from one that listens, and from one attempt to connect.
//
// Thread safety: none; the control thread.
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
  /// TLS handshakes that may be under way at once; further ones are refused.
  static constexpr size_t kMaxHandshakes = 16;

  /// Binds and listens. A Unix socket file without a listener is replaced; one with a
  /// listener is an error. `tls` (not null) is for targets under TLS, and outlives this.
  static Result<std::unique_ptr<Listener>> open(asio::io_context& io, const Target& target,
                                                TlsCredentials* tls, Accepted accepted);
  /// Stops; a Unix socket's file is removed.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// The port listened on (of use if the target's was 0); 0 for a Unix socket.
  [[nodiscard]] uint16_t port() const { return port_; }

 private:
  class Acceptor;
  Listener() = default;

  std::shared_ptr<Acceptor> acceptor_;
  std::string path_;
  uint16_t port_{0};
};

/// One attempt to connect to an active target. `done` is called once, unless the attempt is
/// destroyed first; not before the constructor has returned.
class ConnectAttempt {
 public:
  using Done = std::function<void(Result<std::unique_ptr<Stream>>)>;
  /// `tls` as of Listener::open().
  ConnectAttempt(asio::io_context& io, const Target& target, TlsCredentials* tls, Done done);
  ~ConnectAttempt();
  ConnectAttempt(const ConnectAttempt&) = delete;
  ConnectAttempt& operator=(const ConnectAttempt&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace headrace::openflow
