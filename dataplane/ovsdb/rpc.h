// SPDX-License-Identifier: Apache-2.0
// JSON-RPC 1.0 over a stream socket, as OVSDB uses it (RFC 7047, section 4).
#pragma once

#include <array>
#include <asio.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json_splitter.h"
#include "base/result.h"
#include "base/stream.h"
#include "ovsdb/values.h"

namespace headrace::ovsdb {

/// One connection, from connect() to its first failure; then it is done and a new one is made.
///
/// Both ends may ask: the peer's `echo` is answered here, other methods of the peer go to
/// `on_notify`. Probes an idle peer with `echo` and fails if it stays silent.
///
/// Thread safety: none; all calls and handlers run on the io_context's thread. Handlers are never
/// called from within the call that registers them, and none is called after close().
class Rpc : public std::enable_shared_from_this<Rpc> {
 public:
  using OnConnect = std::function<void()>;
  using OnNotify = std::function<void(const std::string& method, const Json& params)>;
  using OnFailure = std::function<void(const std::string& why)>;
  /// The "result" member, or the "error" member in words.
  using OnReply = std::function<void(Result<Json>)>;

  /// Silence after which the peer is probed, and after as much again given up.
  static constexpr std::chrono::seconds kProbeInterval{5};
  /// Bytes waiting to be sent beyond which the peer counts as stalled and the connection fails.
  static constexpr size_t kMaxBacklog = size_t{64} << 20;

  /// `tls` (not null) is for `ssl:` targets, and outlives this.
  explicit Rpc(asio::io_context& context, TlsCredentials* tls = nullptr);

  OnConnect on_connect;
  OnNotify on_notify;
  OnFailure on_failure;

  /// Connects to `unix:PATH`, `tcp:IP:PORT` or `ssl:IP:PORT`. Fails at once only for a malformed
  /// target.
  Result<> connect(const std::string& target);
  /// Sends a request. The reply comes once, unless the connection fails first.
  void request(const std::string& method, Json params, OnReply on_reply);
  /// Ends the connection in silence.
  void close();

  /// Handles bytes as if received. Public for the fuzzer; sends nothing unless connected.
  Result<> receive(std::string_view bytes);

 private:
  void connected(const std::string& target);
  void ready(std::unique_ptr<Stream> stream);
  void send(const Json& message);
  void read();
  void write();
  void start_probe();
  void fail_connection(const std::string& why);
  Result<> dispatch(const std::string& text);
  Result<> dispatch_reply(const Json& message);

  asio::io_context& context_;
  TlsCredentials* tls_;
  StreamSocket socket_;             ///< until it is connected
  std::unique_ptr<Stream> stream_;  ///< from then on
  asio::steady_timer probe_;
  JsonSplitter splitter_;
  std::array<char, 65536> input_{};
  std::deque<std::string> output_;
  size_t written_{0};  ///< octets of output_.front() that the peer took
  size_t backlog_{0};
  int64_t next_id_{1};
  std::map<int64_t, OnReply> pending_;
  bool open_{false};
  bool closed_{false};
  bool heard_{false};  ///< anything since the last probe
  bool probing_{false};
};

/// The socket address of `unix:PATH`, `tcp:IP:PORT` or `ssl:IP:PORT` (IPv6 in brackets).
Result<asio::generic::stream_protocol::endpoint> parse_target(const std::string& target);

}  // namespace headrace::ovsdb
