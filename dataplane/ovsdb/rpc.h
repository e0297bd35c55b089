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

/// One connection, from connect() to its first failure; a new object is needed to reconnect.
///
/// Both ends may send requests: the peer's `echo` is answered here, its other methods are passed to
/// `on_notify`. An idle peer is probed with `echo`; the connection fails if no answer comes.
///
/// Thread safety: none; all calls and handlers run on the io_context's thread. Handlers are never
/// called from within the call that registers them, and none is called after close().
class Rpc : public std::enable_shared_from_this<Rpc> {
 public:
  using OnConnect = std::function<void()>;
  using OnNotify = std::function<void(const std::string& method, const Json& params)>;
  using OnFailure = std::function<void(const std::string& why)>;
  /// The "result" member, or the "error" member as text.
  using OnReply = std::function<void(Result<Json>)>;

  /// After this time without data the peer is probed, and after the same time again the connection
  /// fails.
  static constexpr std::chrono::seconds kProbeInterval{5};
  /// The connection fails when more bytes than this wait to be sent.
  static constexpr size_t kMaxBacklog = size_t{64} << 20;

  /// `tls` (not null) is for `ssl:` targets, and must outlive this object.
  explicit Rpc(asio::io_context& context, TlsCredentials* tls = nullptr);

  OnConnect on_connect;
  OnNotify on_notify;
  OnFailure on_failure;

  /// Connects to `unix:PATH`, `tcp:IP:PORT` or `ssl:IP:PORT`. Fails at once only if the target is
  /// malformed.
  Result<> connect(const std::string& target);
  /// Sends a request. `on_reply` is called once, unless the connection fails first.
  void request(const std::string& method, Json params, OnReply on_reply);
  /// Closes the connection without calling handlers.
  void close();

  /// Processes received bytes. Public for the fuzzer; sends nothing unless connected.
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
  size_t written_{0};  ///< octets of output_.front() already written
  size_t backlog_{0};
  int64_t next_id_{1};
  std::map<int64_t, OnReply> pending_;
  bool open_{false};
  bool closed_{false};
  bool received_{false};  ///< data received since the last probe
  bool probing_{false};
};

/// The socket address of `unix:PATH`, `tcp:IP:PORT` or `ssl:IP:PORT` (IPv6 in brackets).
Result<asio::generic::stream_protocol::endpoint> parse_target(const std::string& target);

}  // namespace headrace::ovsdb
