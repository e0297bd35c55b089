// SPDX-License-Identifier: Apache-2.0
// The control socket of headrace-switch, headrace-traffic and headrace-vnf.
//
// What: newline-delimited JSON over a Unix stream socket. One request per line,
//   {"id": 7, "method": "show", "params": {...}}
// and one reply per line, in the order in which they complete,
//   {"id": 7, "result": ...}  or  {"id": 7, "error": {"code": "not_found", "message": "..."}}
// `id` is any JSON value and comes back as sent; `params` may be left out. Every program answers
// `ping` and `shutdown`; a program adds its own methods with on() and on_async().
//
// Limits: a line of more than kMaxLine bytes gets the error "line_too_long" and the connection is
// closed, for the rest of it cannot be found again. A client that does not read its replies is
// closed once kMaxUnsent bytes wait for it. What is not JSON gets "bad_json", a JSON value that is
// no request "bad_request", an unknown method "unknown_method". A client of Open vSwitch's unixctl
// protocol (ovs-appctl), whose requests have no newline, is told at once where to go.
//
// Thread safety: everything runs in the threads that run the io_context (one, in all our programs),
// but for Reply, which may be called from any thread, once, also after the server or the
// connection is gone.
#pragma once

#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/result.h"

namespace headrace {

class ControlServer {
 public:
  static constexpr size_t kMaxLine = 4 << 20;
  static constexpr size_t kMaxUnsent = 64 << 20;

  /// The reply to `ping`, and the action of `shutdown`.
  struct Program {
    std::string name;
    /// The "eal" member of ping's result; may be empty for a program without one.
    std::function<nlohmann::json()> eal;
    /// Called after the reply to `shutdown` is on its way. Must be set.
    std::function<void()> shutdown;
    /// Where the commands of ovs-appctl go instead, as a sentence; empty: the program has none.
    std::string unixctl{};
  };

  using Handler = std::function<Result<nlohmann::json>(const nlohmann::json& params)>;
  using Reply = std::function<void(Result<nlohmann::json>)>;
  using AsyncHandler = std::function<void(const nlohmann::json& params, Reply reply)>;

  /// Listens on `path`, mode 0600. A dead socket left there by an earlier run is replaced; one that
  /// has a listener is an error. `io` must outlive the server.
  static Result<std::unique_ptr<ControlServer>> open(asio::io_context& io, const std::string& path,
                                                     Program program);
  /// Closes all connections and removes the socket.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  /// Serves `method`; `params` is an object, empty if the request had none. A handler that needs
  /// a member calls params.at(): nlohmann's exceptions become the error "bad_params".
  void on(const std::string& method, Handler handler);

  /// As on(), for what takes long: the handler returns at once and calls `reply` later.
  void on_async(const std::string& method, AsyncHandler handler);

 private:
  class Session;

  ControlServer(asio::io_context& io, std::string path, Program program);
  void accept();
  void dispatch(const std::string& method, const nlohmann::json& params, Reply reply);

  asio::io_context& io_;
  std::string path_;
  Program program_;
  asio::local::stream_protocol::acceptor acceptor_;
  std::unordered_map<std::string, AsyncHandler> methods_;
  std::unordered_set<std::shared_ptr<Session>> sessions_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< watched by pending operations
};

}  // namespace headrace
