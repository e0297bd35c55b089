// SPDX-License-Identifier: Apache-2.0
#include "unixctl/server.h"

#include <unistd.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/write.hpp>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/json_splitter.h"
#include "base/log.h"
#include "base/unix_listener.h"

namespace headrace::unixctl {

using nlohmann::json;
using Stream = asio::local::stream_protocol;

/// One connection. Lives as long as the server holds it; pending operations hold weak references.
class Server::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Server& server, Stream::socket socket)
      : server_(server), socket_(std::move(socket)), splitter_(kMaxRequest) {}

  void start() { read(); }

  void close() {
    asio::error_code ignored;
    socket_.close(ignored);
    server_.sessions_.erase(shared_from_this());
  }

 private:
  void read() {
    socket_.async_read_some(asio::buffer(chunk_),
                            [weak = weak_from_this()](const asio::error_code& error, size_t size) {
                              const std::shared_ptr<Session> self = weak.lock();
                              if (!self || error == asio::error::operation_aborted) return;
                              if (error) {
                                self->close();
                              } else {
                                self->received({self->chunk_.data(), size});
                              }
                            });
  }

  void received(std::string_view bytes) {
    std::vector<std::string> requests;
    const Result<> split = splitter_.feed(bytes, requests);
    for (const std::string& request : requests) {
      if (!serve(request)) return give_up("a message that is no request");
    }
    if (!split) return give_up(split.error().message);
    if (unsent_bytes_ > kMaxUnsent) return give_up("a client does not read its replies");
    if (socket_.is_open()) read();
  }

  void give_up(std::string_view why) {
    log::warn("unixctl: {}; closing the connection", why);
    close();
  }

  /// False if it is no request.
  bool serve(const std::string& text) {
    const json request = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!request.is_object() || !request.contains("id") || request["id"].is_null() ||
        !request.contains("method") || !request["method"].is_string() ||
        !request.contains("params") || !request["params"].is_array()) {
      return false;
    }
    reply(request["id"], run(request["method"].get<std::string>(), request["params"]));
    return true;
  }

  Result<std::string> run(const std::string& method, const json& params) {
    std::vector<std::string> arguments;
    for (const json& each : params) {
      if (!each.is_string()) return fail("\"{}\" command has non-string argument", method);
      arguments.push_back(each.get<std::string>());
    }
    return server_.commands_.run(method, arguments);
  }

  void reply(const json& id, const Result<std::string>& result) {
    std::string text = result ? *result : result.error().message;
    if (!text.empty() && text.back() != '\n') text += '\n';
    json message{{"id", id}, {"result", nullptr}, {"error", nullptr}};
    message[result ? "result" : "error"] = std::move(text);
    const std::string line = message.dump(-1, ' ', false, json::error_handler_t::replace);
    unsent_bytes_ += line.size();
    waiting_ += line;
    if (sending_.empty()) write();
  }

  void write() {
    std::swap(sending_, waiting_);
    asio::async_write(socket_, asio::buffer(sending_),
                      [weak = weak_from_this()](const asio::error_code& error, size_t) {
                        const std::shared_ptr<Session> self = weak.lock();
                        if (!self || error == asio::error::operation_aborted) return;
                        self->unsent_bytes_ -= self->sending_.size();
                        self->sending_.clear();
                        if (error) {
                          self->close();
                        } else if (!self->waiting_.empty()) {
                          self->write();
                        }
                      });
  }

  Server& server_;
  Stream::socket socket_;
  JsonSplitter splitter_;
  std::array<char, 16384> chunk_;
  std::string sending_;  ///< owned by the write in flight; empty: none in flight
  std::string waiting_;  ///< to be sent after that
  size_t unsent_bytes_{0};
};

Result<std::unique_ptr<Server>> Server::open(asio::io_context& io, const std::string& path,
                                             const Commands& commands) {
  std::unique_ptr<Server> server(new Server(io, path, commands));
  if (Result<> listening = listen_on(server->acceptor_, path, "unixctl socket"); !listening) {
    return tl::unexpected(listening.error());
  }
  server->accept();
  return server;
}

Server::Server(asio::io_context& io, std::string path, const Commands& commands)
    : path_(std::move(path)), commands_(commands), acceptor_(io) {}

Server::~Server() {
  const auto sessions = std::exchange(sessions_, {});
  for (const auto& session : sessions) session->close();
  if (acceptor_.is_open()) {
    asio::error_code ignored;
    acceptor_.close(ignored);
    ::unlink(path_.c_str());
  }
}

void Server::accept() {
  acceptor_.async_accept(
      [this, alive = std::weak_ptr(alive_)](const asio::error_code& error, Stream::socket socket) {
        // A connection accepted just before the server's end may arrive here after it.
        if (alive.expired()) return;
        if (error) {
          log::warn("unixctl: accept: {}", error.message());
        } else {
          auto session = std::make_shared<Session>(*this, std::move(socket));
          sessions_.insert(session);
          session->start();
        }
        accept();
      });
}

}  // namespace headrace::unixctl
