// SPDX-License-Identifier: Apache-2.0
// Sockets for connections: one that listens, and one attempt to connect.
//
// Thread safety: none; the control thread.
#pragma once

#include <asio/basic_socket_acceptor.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <system_error>

#include "base/result.h"
#include "openflow/target.h"

namespace headrace::openflow {

using StreamSocket = asio::generic::stream_protocol::socket;

/// Accepts connections at a passive target until it is destroyed.
class Listener {
 public:
  using Accepted = std::function<void(StreamSocket)>;

  /// Binds and listens. A Unix socket file that nobody listens on any more is replaced; one that
  /// somebody does is an error.
  static Result<std::unique_ptr<Listener>> open(asio::io_context& io, const Target& target,
                                                Accepted accepted);
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

/// One attempt to connect to an active target. `done` is called once, unless the returned attempt
/// is destroyed first.
class ConnectAttempt {
 public:
  using Done = std::function<void(const std::error_code&, StreamSocket)>;
  ConnectAttempt(asio::io_context& io, const Target& target, Done done);
  ~ConnectAttempt();
  ConnectAttempt(const ConnectAttempt&) = delete;
  ConnectAttempt& operator=(const ConnectAttempt&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace headrace::openflow
