// SPDX-License-Identifier: Apache-2.0
// The socket that `ovs-appctl -t` speaks to: Open vSwitch's unixctl protocol.
//
// What: JSON-RPC 1.0 over a Unix stream socket, messages one after the other without anything in
// between: {"id": 0, "method": "fdb/show", "params": ["br0"]}, and in reply
// {"id": 0, "result": "text", "error": null}, or "error": "text" with "result": null. Parameters
// are strings. A text ends with a newline. Source: ovs-appctl(8), lib/unixctl.c.
//
// Limits: a request of more than kMaxRequest bytes, or bytes that are no JSON object, close the
// connection, as OVS does. A client that does not read is closed once kMaxUnsent bytes wait for it.
//
// Thread safety: everything runs in the thread that runs the io_context.
#pragma once

#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <unordered_set>

#include "base/result.h"
#include "unixctl/command.h"

namespace headrace::unixctl {

class Server {
 public:
  static constexpr size_t kMaxRequest = 4 << 20;
  static constexpr size_t kMaxUnsent = 64 << 20;

  /// Listens on `path`, mode 0600; a dead socket there is replaced, one that has a listener is an
  /// error. `io` and `commands` must outlive the server.
  static Result<std::unique_ptr<Server>> open(asio::io_context& io, const std::string& path,
                                              const Commands& commands);
  /// Closes all connections and removes the socket.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

 private:
  class Session;

  Server(asio::io_context& io, std::string path, const Commands& commands);
  void accept();

  std::string path_;
  const Commands& commands_;
  asio::local::stream_protocol::acceptor acceptor_;
  std::unordered_set<std::shared_ptr<Session>> sessions_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< watched by pending operations
};

}  // namespace headrace::unixctl
